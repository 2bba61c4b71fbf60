package pickle

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

var errEscape = errors.New("a string with a bad escape")

// unquote reads the repr of a Python 2 str: quoted, with \n, \t, \r, \\, quotes and \xhh escaped.
func unquote(s string) (string, error) {
	if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '\'' && s[0] != '"' {
		return "", errors.New("a string without quotes")
	}
	s = s[1 : len(s)-1]
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", errEscape
		}
		switch s[i] {
		case '\\', '\'', '"':
			b.WriteByte(s[i])
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'x':
			if i+3 > len(s) {
				return "", errEscape
			}
			v, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				return "", errEscape
			}
			b.WriteByte(byte(v))
			i += 2
		default:
			return "", errEscape
		}
	}
	return b.String(), nil
}

// unescapeUnicode reads Python's raw-unicode-escape: latin-1 bytes with \uhhhh and \Uhhhhhhhh, every other
// backslash plain.
func unescapeUnicode(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		digits := 0
		if s[i] == '\\' && i+1 < len(s) {
			switch s[i+1] {
			case 'u':
				digits = 4
			case 'U':
				digits = 8
			}
		}
		if digits == 0 {
			b.WriteRune(rune(s[i]))
			continue
		}
		if i+2+digits > len(s) {
			return "", errEscape
		}
		v, err := strconv.ParseUint(s[i+2:i+2+digits], 16, 32)
		if err != nil || v > utf8.MaxRune {
			return "", errEscape
		}
		b.WriteRune(rune(v))
		i += 1 + digits
	}
	return b.String(), nil
}
