// Package number reads the numbers of users' texts: tables, lists, settings. Settings, flags and readers of
// tables call it.
package number

import (
	"strconv"
	"strings"
)

// Parse is strconv.ParseFloat without the spellings of Go alone, 1_000 and 0x1p4: in a table these are names.
func Parse(text string, bits int) (float64, error) {
	if strings.ContainsAny(text, "_xX") {
		return 0, &strconv.NumError{Func: "Parse", Num: text, Err: strconv.ErrSyntax}
	}
	return strconv.ParseFloat(text, bits)
}
