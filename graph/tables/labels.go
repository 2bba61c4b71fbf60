package tables

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/internal/arrays"
	"weft/graph/internal/names"
	"weft/internal/memory"
	"weft/internal/number"
	"weft/internal/refusal"
)

// labels are the values of the column of labels.
type labels struct {
	words *names.Table
	rows  []int32 // the word of each row, −1 if it has no label
	read  int64   // rows that were read
	first []int64 // for each word, the row where it first came, from 1
}

// add adds the label of the next row.
func (l *labels) add(field []byte) error {
	word, err := l.word(field)
	if err != nil {
		return err
	}
	if l.rows, err = memory.Grow(l.rows, 1); err == nil {
		l.rows = append(l.rows, word)
	}
	return err
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
	if !utf8.Valid(field) {
		return -1, fmt.Errorf("the class %.40q is not UTF-8: convert the file, as with "+
			"iconv -f LATIN1 -t UTF-8", field)
	}
	word, err = l.words.Number(field)
	if err == nil && int(word) == len(l.first) {
		l.first, err = memory.Append(l.first, l.read)
	}
	return word, err
}

// any reports whether a row has a label.
func (l *labels) any() bool { return len(l.words.Names) > 0 }

// build returns the labels of so many vertices. They are values if all words are numbers and one is not
// whole, or if values is set. Else they are classes by name, in the order of their numbers if all are whole
// numbers, else of their words.
func (l *labels) build(vertices int, values bool) (made graph.Labels, err error) {
	if !l.any() {
		return made, refusal.Errorf("no row has a label")
	}
	numbers, whole := l.numbers()
	if numbers == nil {
		if err := l.checkOdd(values); err != nil {
			return made, err
		}
	}
	if err := memory.Need(8 * int64(vertices)); err != nil {
		return made, err
	}
	if numbers != nil && (values || !whole) {
		return l.values(numbers, vertices), nil
	}
	var order []int32 // the words of classes, in order
	classes := slices.Repeat([]int64{-1}, len(l.words.Names))
	for word := range classes {
		if !l.isNone(numbers, word) {
			order = append(order, int32(word))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		if numbers != nil && numbers[a] != numbers[b] {
			return cmp.Compare(numbers[a], numbers[b])
		}
		return cmp.Compare(l.words.Names[a], l.words.Names[b])
	})
	for class, word := range order {
		made.Names = append(made.Names, l.words.Names[word])
		classes[word] = int64(class)
	}
	made.Classes = len(order)
	made.Class = slices.Repeat([]int64{-1}, vertices)
	for v, word := range l.rows {
		if word >= 0 {
			made.Class[v] = classes[word]
		}
	}
	return made, nil
}

// checkDates refuses dates that would be many classes, in so many rows. noun names what has the labels.
func (l *labels) checkDates(rows int, noun string) error {
	if l.words == nil || !arrays.ManyClasses(len(l.words.Names), rows) {
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
		"place, as days, with --values, or name another column", l.words.Names[0], len(l.words.Names), rows, noun)
}

// isNone reports whether a word is −1 among classes from 0 and so means no label. If there is only one other
// class, −1 is the second class.
func (l *labels) isNone(numbers []float64, word int) bool {
	return numbers != nil && numbers[word] == -1 && slices.Min(numbers) == -1 &&
		slices.ContainsFunc(numbers, func(x float64) bool { return x >= 0 && x != slices.Max(numbers) })
}

// like returns the labels of so many vertices like a graph's: values, or classes by the graph's names, or by
// its numbers in any spelling. It refuses a class that the graph does not have.
func (l *labels) like(prior *graph.Labels, vertices int) (made graph.Labels, err error) {
	numbers, _ := l.numbers()
	if prior.Continuous() {
		if numbers == nil {
			return made, refusal.Errorf("the labels of the graph are values, and not all here are numbers")
		}
		return l.values(numbers, vertices), nil
	}
	made.Classes = prior.Classes
	made.Class = slices.Repeat([]int64{-1}, vertices)
	classes := make([]int64, len(l.words.Names))
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
		classes[word] = int64(k)
	}
	for v, word := range l.rows {
		if word >= 0 {
			made.Class[v] = classes[word]
		}
	}
	return made, nil
}

// values returns the labels of so many vertices if each word is a number.
func (l *labels) values(numbers []float64, vertices int) graph.Labels {
	made := graph.Labels{Columns: 1, Values: slices.Repeat([]float32{float32(math.NaN())}, vertices)}
	for v, word := range l.rows {
		if word >= 0 {
			made.Values[v] = float32(numbers[word])
		}
	}
	return made
}

// numbers returns the number of each word, nil if a word is no number that float32 holds. whole says that all
// are whole.
func (l *labels) numbers() (numbers []float64, whole bool) {
	numbers, whole = []float64{}, true
	for _, word := range l.words.Names {
		x, ok := valueOf(word)
		if !ok {
			return nil, false
		}
		numbers = append(numbers, x)
		whole = whole && x == math.Trunc(x)
	}
	return numbers, whole
}

// valueOf is the number that a word is, if float32 holds it.
func valueOf(word string) (x float64, ok bool) {
	x, err := number.Parse(word, 64)
	return x, err == nil && !math.IsInf(float64(float32(x)), 0)
}

// oddWords finds words that are no numbers, if labels are to be values or such words are few among numbers.
// It returns the first, −1 if there is none. whole says that all of the numbers are whole.
func (l *labels) oddWords(values bool) (first int, whole bool) {
	const numbersOfAWord = 7
	first, whole = -1, true
	numbers := 0
	for word, name := range l.words.Names {
		x, ok := valueOf(name)
		switch {
		case ok:
			numbers++
			whole = whole && x == math.Trunc(x)
		case first < 0:
			first = word
		}
	}
	if words := len(l.words.Names) - numbers; !values && numbersOfAWord*words > numbers {
		return -1, whole
	}
	return first, whole
}

// checkOdd refuses odd words if labels are to be values, and among numbers that are not all whole: a single
// word would make a class of each number.
func (l *labels) checkOdd(values bool) error {
	odd, whole := l.oddWords(values)
	asked := "--values asks for numbers"
	switch {
	case odd < 0 || whole && !values:
		return nil
	case !values:
		asked = "nearly all labels are numbers"
	}
	return refusal.Errorf("%s, and %.40q in row %d is none: correct it, or leave the field empty", asked,
		l.words.Names[odd], l.first[odd])
}

// notes say that the rows have nearly as many classes, as names would; that numbers became classes and may be
// values; and that −1 means no label. noun names what has the labels.
func (l *labels) notes(made *graph.Labels, labelled int, noun, path, column string) (notes []string) {
	numbers, _ := l.numbers()
	switch {
	case made.Class == nil:
		return nil
	case numbers == nil && made.Classes > 2 && 2*made.Classes > labelled:
		return []string{fmt.Sprintf("column %s of %s taken for %d classes of %d %s: most are of one of these, "+
			"and hardly learned", column, path, made.Classes, labelled, noun)}
	case numbers == nil:
		if odd, _ := l.oddWords(false); odd >= 0 && arrays.ManyClasses(made.Classes, labelled) {
			notes = append(notes, fmt.Sprintf("column %s of %s taken for %d classes of %d %s, as %.40q in row %d is no "+
				"number: correct it, or leave the field empty, if the others are values", column, path, made.Classes,
				labelled, noun, l.words.Names[odd], l.first[odd]))
		}
		return notes
	}
	if arrays.ManyClasses(made.Classes, labelled) {
		notes = append(notes, fmt.Sprintf("whole numbers of column %s of %s taken for %d classes of %d "+
			"%s; --values takes them for values to predict", column, path, made.Classes, labelled, noun))
	}
	for word, name := range l.words.Names {
		if l.isNone(numbers, word) {
			notes = append(notes, fmt.Sprintf("%s of column %s of %s taken for no label; if it is a class, "+
				"write a word for it", name, column, path))
		}
	}
	return notes
}
