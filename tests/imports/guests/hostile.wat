;; A tool whose `execute` does what a test says and then, if it comes that far, succeeds.
;; Imports and body are filled in; memory from 1024 to 65535 is free for the body.
(module
  {imports}
  (memory (export "memory") 2)
  (global $free (mut i32) (i32.const 65536))
  (data (i32.const 0) "hostile\00\00\00\00\00\00\00\00\00")
  (data (i32.const 16) "\00\00\00\00\07\00\00\00")
  (data (i32.const 24) "\00\02\00\00\02\00\00\00")
  (data (i32.const 512) "{}")
  (data (i32.const 32) "\00\00\00\00\01\00\00\00\00\00\00\00\07\00\00\00\00\00\00\00")
  (func (export "cabi_realloc") (param $old i32) (param $size i32) (param $align i32) (param $new i32) (result i32)
    (local $given i32)
    (local.set $given (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
    (global.set $free (i32.add (local.get $given) (local.get $new)))
    (local.get $given))
  (func $text (result i32) (i32.const 16))
  (func $schema (result i32) (i32.const 24))
  (export "zeroclaw:plugin/plugin-info@0.1.0#plugin-name" (func $text))
  (export "zeroclaw:plugin/plugin-info@0.1.0#plugin-version" (func $text))
  (export "zeroclaw:plugin/tool@0.1.0#name" (func $text))
  (export "zeroclaw:plugin/tool@0.1.0#description" (func $text))
  (export "zeroclaw:plugin/tool@0.1.0#parameters-schema" (func $schema))
  (func (export "zeroclaw:plugin/tool@0.1.0#execute") (param i32 i32) (result i32)
    (local $a i32) (local $b i32) (local $count i32)
    {body}
    (i32.const 32)))
