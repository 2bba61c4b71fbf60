//go:build !linux || !cgo

package early

// This is the error of a build on another system, or without cgo.
var _ = weft_builds_on_Linux_with_CGO_ENABLED_1_and_a_C_compiler //nolint:revive // the compiler prints the name
