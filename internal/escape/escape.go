// Package escape spells out characters that command a terminal or disguise other text. The commands print
// names and errors by it, as both may come from a file.
package escape

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Unless returns text with escapes, as in Go's strings, for each character that shown does not report and for
// bytes that are no UTF-8.
func Unless(shown func(rune) bool, text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !shown(r) }) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case shown(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return b.String()
}
