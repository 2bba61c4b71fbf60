package tables

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/internal/arrays"
	"weft/graph/internal/names"
	"weft/internal/memory"
	"weft/internal/number"
	"weft/internal/refusal"
)

// labels are the values of a column of labels of vertices or edges. Each row has one of a few words, so that
// labels are made of the words and then given to the rows.
type labels struct {
	words *names.Table
	read  int     // rows that were read
	first []int64 // for each word, the row where it first came, from 1
}

// word returns the number of the word in a field, −1 if the field is empty.
func (l *labels) word(field []byte) (word int32, err error) {
	if l.words == nil {
		l.words = names.NewTable()
	}
	l.read++
	if columns.IsMissing(field) {
		return -1, nil
	}
	if err := arrays.CheckUTF8("class", field); err != nil {
		return -1, err
	}
	word, err = l.words.Number(field)
	if err == nil && int(word) == len(l.first) {
		l.first, err = memory.Append(l.first, int64(l.read))
	}
	return word, err
}

// any reports whether a row has a label.
func (l *labels) any() bool { return l.words != nil && len(l.words.Names) > 0 }

// complete returns the labels of words once all rows have been read, and what is to be noted about them. noun
// names the rows of the table at path that have them.
func (l *labels) complete(path, column, noun string, values bool) (
	made graph.Labels, notes []string, err error,
) {
	if err = l.checkDates(noun); err == nil {
		made, err = l.ofWords(values)
	}
	if err != nil {
		return made, nil, fmt.Errorf("%s: column %s: %w", path, column, err)
	}
	return made, l.notes(&made, noun, path, column), nil
}

// ofRows returns the labels of so many rows from those of words. rows has the word of each, −1 if it has no
// label. Rows behind these have none.
func ofRows(words graph.Labels, rows []int32, count int) (graph.Labels, error) {
	bytes := 16 // of a number and a label
	if words.MultiLabel() {
		bytes += 4 * words.Classes
	}
	if err := memory.Need(int64(bytes) * int64(count)); err != nil {
		return graph.Labels{}, err
	}
	numbers := slices.Repeat([]int64{-1}, count)
	for k, word := range rows {
		numbers[k] = int64(word)
	}
	return (&graph.Frame{Labels: words}).OfRows(numbers), nil
}

// ofWords returns labels, a row for each word. They are values if all words are numbers and one is not whole,
// or if values is set. Else they are classes by name, in the order of their numbers if all are whole numbers,
// else of their words. It refuses words if labels are to be values, and a few among numbers with fractions.
func (l *labels) ofWords(values bool) (made graph.Labels, err error) {
	if !l.any() {
		return made, errNoLabel
	}
	numbers, odd, few, whole := l.numbers()
	if numbers == nil && (values || few && !whole) { // a single word would make a class of each number
		asked := "--values asks for numbers"
		if !values {
			asked = "nearly all labels are numbers"
		}
		return made, refusal.Errorf("%s, and %.40q in row %d is none: correct it, or leave the field empty", asked,
			l.words.Names[odd], l.first[odd])
	}
	if numbers != nil && (values || !whole) {
		return valuesOf(numbers), nil
	}
	var order []int // the words of classes, in order
	made.Class = slices.Repeat([]int64{-1}, len(l.words.Names))
	for word := range made.Class {
		if !l.isNone(numbers, word) {
			order = append(order, word)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		if numbers != nil && numbers[a] != numbers[b] {
			return cmp.Compare(numbers[a], numbers[b])
		}
		return cmp.Compare(l.words.Names[a], l.words.Names[b])
	})
	for class, word := range order {
		made.Names = append(made.Names, l.words.Names[word])
		made.Class[word] = int64(class)
	}
	made.Classes = len(order)
	return made, nil
}

// errNoLabel refuses a column without a label.
var errNoLabel = refusal.Errorf("no row has a label")

// checkDates refuses dates that would be many classes. noun names what has the labels.
func (l *labels) checkDates(noun string) error {
	if l.words == nil || !arrays.ManyClasses(len(l.words.Names), l.read) {
		return nil
	}
	profile := columns.NewProfile("", columns.Choices{Most: 1})
	for _, word := range l.words.Names {
		profile.Add([]byte(word), []byte(word))
	}
	if made, _ := profile.Column(); made.Kind != columns.Date {
		return nil
	}
	return refusal.Errorf("its labels are dates, as %.40q, and would be %d classes of %d %s: write numbers in their "+
		"place, as days, with --values, or name another column", l.words.Names[0], len(l.words.Names), l.read, noun)
}

// isNone reports whether a word is −1 among classes from 0 and so means no label. If there is only one other
// class, −1 is the second class.
func (l *labels) isNone(numbers []float64, word int) bool {
	return numbers != nil && numbers[word] == -1 && slices.Min(numbers) == -1 &&
		slices.ContainsFunc(numbers, func(x float64) bool { return x >= 0 && x != slices.Max(numbers) })
}

// like returns labels like a graph's, a row for each word: values, or classes by the graph's names, or by its
// numbers in any spelling. It refuses a class that the graph does not have.
func (l *labels) like(prior *graph.Labels) (made graph.Labels, err error) {
	numbers, _, _, _ := l.numbers()
	if prior.Continuous() {
		if numbers == nil {
			return made, refusal.Errorf("the labels of the graph are values, and not all here are numbers")
		}
		return valuesOf(numbers), nil
	}
	made.Classes, made.Class = prior.Classes, make([]int64, len(l.words.Names))
	for word, name := range l.words.Names {
		k := slices.Index(prior.Names, name)
		if k < 0 && numbers != nil {
			k = slices.IndexFunc(prior.Names, func(known string) bool {
				x, err := number.Parse(known, 64)
				return err == nil && x == numbers[word]
			})
		}
		if k < 0 && prior.Names == nil && numbers != nil { // the graph's classes are numbers
			if x := numbers[word]; x == math.Trunc(x) && x >= 0 && x < float64(prior.Classes) {
				k = int(x)
			}
		}
		if k < 0 && (numbers == nil || numbers[word] != -1) { // −1 is no label unless it is a class
			return made, refusal.Errorf("the graph has no class %.40q, but %s; models of the graph cannot "+
				"tell another: leave the field empty, or import all again", name, arrays.Listed(prior.Names))
		}
		made.Class[word] = int64(k)
	}
	return made, nil
}

// valuesOf returns the labels of words that are numbers.
func valuesOf(numbers []float64) graph.Labels {
	made := graph.Labels{Columns: 1, Values: make([]float32, len(numbers))}
	for word, x := range numbers {
		made.Values[word] = float32(x)
	}
	return made
}

// numbers returns the number of each word; nil: a word is no number that float32 holds. Then odd is the first
// such word, and few says that there are few among numbers. whole says that all numbers are whole.
func (l *labels) numbers() (numbers []float64, odd int, few, whole bool) {
	const numbersOfAWord = 7
	numbers, whole = []float64{}, true
	for word, name := range l.words.Names {
		x, err := number.Parse(name, 64)
		if err == nil && !math.IsInf(float64(float32(x)), 0) {
			numbers, whole = append(numbers, x), whole && x == math.Trunc(x)
		} else if len(numbers) == word { // all before are numbers
			odd = word
		}
	}
	if words := len(l.words.Names) - len(numbers); words > 0 {
		return nil, odd, numbersOfAWord*words <= len(numbers), whole
	}
	return numbers, 0, false, whole
}

// notes say that the rows have nearly as many classes, as names would; that numbers became classes and may be
// values; and that −1 means no label. noun names what has the labels.
func (l *labels) notes(made *graph.Labels, noun, path, column string) (notes []string) {
	numbers, odd, few, _ := l.numbers()
	switch {
	case made.Class == nil:
		return nil
	case numbers == nil && made.Classes > 2 && 2*made.Classes > l.read:
		return []string{fmt.Sprintf("column %s of %s taken for %d classes of %d %s: most are of one of these, "+
			"and hardly learned", column, path, made.Classes, l.read, noun)}
	case numbers == nil:
		if few && arrays.ManyClasses(made.Classes, l.read) {
			notes = append(notes, fmt.Sprintf("column %s of %s taken for %d classes of %d %s, as %.40q in row %d is no "+
				"number: correct it, or leave the field empty, if the others are values", column, path, made.Classes,
				l.read, noun, l.words.Names[odd], l.first[odd]))
		}
		return notes
	}
	if arrays.ManyClasses(made.Classes, l.read) {
		notes = append(notes, fmt.Sprintf("whole numbers of column %s of %s taken for %d classes of %d "+
			"%s; --values takes them for values to predict", column, path, made.Classes, l.read, noun))
	}
	for word, name := range l.words.Names {
		if l.isNone(numbers, word) {
			notes = append(notes, fmt.Sprintf("%s of column %s of %s taken for no label; if it is a class, "+
				"write a word for it", name, column, path))
		}
	}
	return notes
}
