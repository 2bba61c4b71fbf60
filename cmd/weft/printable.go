package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// printable is text as it may reach a terminal, in one line. What could command the terminal or disguise
// other text is escaped as in Go's strings: control characters, those that turn the direction of writing,
// invalid UTF-8.
func printable(text string) string { return escaped(text, "") }

// escaped is printable, but leaves the characters of keep as they are.
func escaped(text, keep string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case strconv.IsPrint(r) || strings.ContainsRune(keep, r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return b.String()
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
