package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"weft/internal/escape"
)

// printable is text as it may reach a terminal, in one line. What could command the terminal or disguise
// other text is escaped as in Go's strings: control characters, those that turn the direction of writing,
// invalid UTF-8.
func printable(text string) string { return escaped(text, "") }

// escaped is printable, but leaves the characters of keep as they are.
func escaped(text, keep string) string {
	return escape.Unless(func(r rune) bool {
		return strconv.IsPrint(r) || strings.ContainsRune(keep, r)
	}, text)
}

// printableJSON is JSON of the same meaning without the characters that printable escapes.
func printableJSON(text []byte) []byte {
	var b []byte
	for _, r := range string(text) {
		if strconv.IsPrint(r) {
			b = utf8.AppendRune(b, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
	}
	return b
}
