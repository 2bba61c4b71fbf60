package debian

import (
	"hash/fnv"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"weft/graph"
	"weft/internal/memory"
)

// FeatureColumns is the number of columns to which description words are hashed.
const FeatureColumns = 512

// describe makes a feature row from each one-line description. A word adds +1 or −1 to one column; its hash
// chooses both (feature hashing: Weinberger et al., 2009; the signs keep words that share a column from
// adding up). With tf a row's sum in a column, df the number of rows where that is not zero, and V the number
// of rows, the value is
//
//	tf · ln((1+V) / (1+df))
//
// and rows are divided by their Euclidean norm. Rows are sparse. A description without words is an empty row.
func describe(synopses []string) (_ graph.Features, err error) {
	f := graph.Features{Columns: FeatureColumns, Indptr: make([]int64, 1, len(synopses)+1)}
	var (
		sums    [FeatureColumns]float32 // tf of the current row
		columns []int32                 // columns of the current row
		df      [FeatureColumns]int
	)
	for _, synopsis := range synopses {
		columns = columns[:0]
		for word := range words(synopsis) {
			c, sign := hashed(word)
			columns = append(columns, c)
			sums[c] += sign
		}
		slices.Sort(columns)
		columns = slices.Compact(columns)
		if f.Indices, err = memory.Grow(f.Indices, len(columns)); err != nil {
			return f, err
		}
		if f.Data, err = memory.Grow(f.Data, len(columns)); err != nil {
			return f, err
		}
		for _, c := range columns {
			if sums[c] != 0 {
				f.Indices = append(f.Indices, c)
				f.Data = append(f.Data, sums[c])
				df[c]++
			}
			sums[c] = 0
		}
		f.Indptr = append(f.Indptr, int64(len(f.Indices)))
	}
	for v := range synopses {
		start, end := f.Indptr[v], f.Indptr[v+1]
		weigh(f.Indices[start:end], f.Data[start:end], &df, len(synopses))
	}
	return f, nil
}

// weigh turns a row of tf into tf·idf of norm 1.
func weigh(columns []int32, row []float32, df *[FeatureColumns]int, rows int) {
	var square float64
	for k, c := range columns {
		row[k] *= float32(math.Log(float64(1+rows) / float64(1+df[c])))
		square += float64(row[k]) * float64(row[k])
	}
	if square == 0 {
		return
	}
	for k := range row {
		row[k] = float32(float64(row[k]) / math.Sqrt(square))
	}
}

// words yields the words of a description in lower case: runs of letters and digits, two characters or
// longer.
func words(synopsis string) iter.Seq[string] {
	return func(yield func(string) bool) {
		separates := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
		for word := range strings.FieldsFuncSeq(strings.ToLower(synopsis), separates) {
			if utf8.RuneCountInString(word) >= 2 && !yield(word) {
				return
			}
		}
	}
}

// hashed returns the column and the sign of a word: the 32-bit FNV-1a hash modulo the number of columns, and
// its highest bit.
func hashed(word string) (column int32, sign float32) {
	h := fnv.New32a()
	h.Write([]byte(word))
	sum := h.Sum32()
	if sum>>31 == 1 {
		return int32(sum % FeatureColumns), -1
	}
	return int32(sum % FeatureColumns), 1
}
