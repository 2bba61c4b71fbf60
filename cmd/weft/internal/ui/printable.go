// Package ui prints what commands say: results, tables and progress, without characters that control a
// terminal. Only commands call it.
package ui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"weft/internal/escape"
)

// Printable is text as it may reach a terminal, in one line. Whatever could control the terminal or disguise
// other text is escaped as in Go's strings: control characters, characters that turn the direction of
// writing, and invalid UTF-8.
func Printable(text string) string { return escaped(text, "") }

// escaped is Printable, but leaves the characters of keep as they are.
func escaped(text, keep string) string {
	return escape.Unless(func(r rune) bool {
		return strconv.IsPrint(r) || strings.ContainsRune(keep, r)
	}, text)
}

// printableJSON is JSON of the same meaning without the characters that Printable escapes.
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

// InOneLine replaces line breaks by semicolons.
func InOneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// OneLine prints an error as the single line that callers rely on, even if a name in it holds line breaks. An
// error that repeats a long name of a damaged file loses its middle: the file and the way out stay.
func OneLine(err error) string {
	const before, after = 2000, 1000 // bytes
	text := InOneLine(err.Error())
	if end := len(text) - after; end > before {
		text = strings.ToValidUTF8(text[:before], "") + " … " + strings.ToValidUTF8(text[end:], "")
	}
	return "weft: " + Printable(text)
}

// When is a text if a condition is true, and else "".
func When(condition bool, text string) string {
	if condition {
		return text
	}
	return ""
}

// Joined joins the parts that are not empty.
func Joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}
