;; A tool that logs once and gives back the arguments it was called with. Written by hand, so that it compiles in no time.
(module
  (import "zeroclaw:plugin/logging@0.1.0" "log-record"
    (func $log (param i32 i32 i32 i32 i32 i32 i32 i64 i32 i32 i32 i32 i32)))
  (memory (export "memory") 2)
  (global $free (mut i32) (i32.const 4096))
  (data (i32.const 16) "wat_echo")
  (data (i32.const 32) "Gives back its arguments.")
  (data (i32.const 64) "{\"type\":\"object\"}")
  (data (i32.const 96) "1.0.0")
  (data (i32.const 112) "execute")
  (data (i32.const 128) "the guest speaks")

  (func (export "cabi_realloc") (param $old i32) (param $size i32) (param $align i32) (param $new i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $free) (i32.const 15)) (i32.const -16)))
    (global.set $free (i32.add (local.get $at) (local.get $new)))
    (local.get $at))

  (func $text (param $at i32) (param $length i32) (result i32)
    (i32.store (i32.const 1024) (local.get $at))
    (i32.store (i32.const 1028) (local.get $length))
    (i32.const 1024))

  (func (export "zeroclaw:plugin/plugin-info@0.1.0#plugin-name") (result i32)
    (call $text (i32.const 16) (i32.const 8)))
  (func (export "zeroclaw:plugin/plugin-info@0.1.0#plugin-version") (result i32)
    (call $text (i32.const 96) (i32.const 5)))
  (func (export "zeroclaw:plugin/tool@0.1.0#name") (result i32)
    (call $text (i32.const 16) (i32.const 8)))
  (func (export "zeroclaw:plugin/tool@0.1.0#description") (result i32)
    (call $text (i32.const 32) (i32.const 25)))
  (func (export "zeroclaw:plugin/tool@0.1.0#parameters-schema") (result i32)
    (call $text (i32.const 64) (i32.const 17)))

  (func (export "zeroclaw:plugin/tool@0.1.0#execute") (param $at i32) (param $length i32) (result i32)
    ;; level warn; action note (36), no outcome, no duration, no attributes
    (call $log
      (i32.const 3) (i32.const 112) (i32.const 7) (i32.const 36) (i32.const 0) (i32.const 0)
      (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 128) (i32.const 16))
    ;; ok(tool-result { success: true, output: the arguments, error: none })
    (i32.store (i32.const 1024) (i32.const 0))
    (i32.store (i32.const 1028) (i32.const 1))
    (i32.store (i32.const 1032) (local.get $at))
    (i32.store (i32.const 1036) (local.get $length))
    (i32.store (i32.const 1040) (i32.const 0))
    (i32.const 1024)))
