// Package suggest finds the word that a mistyped one probably means: a command, a flag, a value, a key of a
// configuration file or the name of a dataset. Refusals of a word call it.
package suggest

import (
	"errors"
	"slices"
	"strings"
)

// Nearest returns the word that typed probably means, "" if none is close. A third of the typed letters may
// be missing, too many, wrong or out of order; capitals do not count. If typed has three letters or more, the
// beginning of a word is enough. A word of another library leads to its Synonym.
func Nearest(typed string, words []string) string {
	if word := Synonym(typed, words); word != "" {
		return word
	}
	letters := []rune(strings.ToLower(typed))
	nearest, least := "", len(letters)/3+1
	for _, word := range words {
		if d := distance(letters, []rune(word), least); d < least {
			nearest, least = word, d
		}
	}
	if nearest == "" && len(letters) >= 3 {
		begins := func(word string) bool { return strings.HasPrefix(word, string(letters)) }
		if i := slices.IndexFunc(words, begins); i >= 0 {
			nearest = words[i]
		}
	}
	return nearest
}

// OneOf returns the way out of an unknown word: the word that was meant, or else all words.
func OneOf(typed string, words []string) string {
	if near := Nearest(typed, words); near != "" {
		hint := "did you mean " + near + "?"
		if more := remarks[plain(typed)]; more != "" {
			hint += " " + more
		}
		return hint
	}
	return "it is one of " + strings.Join(words, ", ")
}

// Like returns the words that share a part with the typed one, capitals aside, as weight-decay does with
// decay-rate; nil: none does. Hyphens and underscores divide a word into parts.
func Like(typed string, words []string) (like []string) {
	parts := func(word string) []string {
		return strings.FieldsFunc(strings.ToLower(word), func(r rune) bool { return r == '-' || r == '_' })
	}
	wanted := parts(typed)
	for _, word := range words {
		if slices.ContainsFunc(parts(word), func(part string) bool {
			return len(part) > 1 && slices.Contains(wanted, part)
		}) {
			like = append(like, word)
		}
	}
	return like
}

// distance counts the insertions, deletions and replacements of letters and the exchanges of two neighbours
// that turn a into b (optimal string alignment). Words whose lengths alone are limit apart are not compared.
func distance(a, b []rune, limit int) int {
	if max(len(a)-len(b), len(b)-len(a)) >= limit {
		return limit
	}
	rows := make([][]int, len(a)+1) // rows[i][j]: from the first i letters of a to the first j of b
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// Parse sets word to its place among the words that it may be, capitals aside.
func Parse[W ~uint8](word *W, text []byte, words []string) error {
	i := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, string(text)) })
	if i < 0 {
		return errors.New(OneOf(string(text), words))
	}
	*word = W(i)
	return nil
}
