package predictions

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"weft/internal/escape"
	numbers "weft/internal/number"
)

// cell is a name as a CSV holds it. A CSV is shown on terminals, so control characters are escaped.
// Spreadsheets open it, so a text that they take for a formula has an apostrophe before it, as OWASP advises
// (https://owasp.org/www-community/attacks/CSV_Injection): a text that begins with =, +, - or @ and is no
// number.
func cell(name string) string {
	name = escape.Unless(func(r rune) bool { return !unicode.IsControl(r) }, name)
	first, size := utf8.DecodeRuneInString(name)
	if size == len(name) || !strings.ContainsRune("=+-@＝＋－＠", first) {
		return name
	}
	if _, err := numbers.Parse(name, 64); err == nil {
		return name
	}
	return "'" + name
}
