//go:build !linux || !cgo || !(amd64 || arm64)

package early

// This is the error of a build on another system or processor, or without cgo.
var _ = weft_builds_on_Linux_on_amd64_or_arm64_with_CGO_ENABLED_1_and_a_C_compiler //nolint:revive // the compiler prints the name
