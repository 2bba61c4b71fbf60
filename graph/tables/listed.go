package tables

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"weft/graph/internal/arrays"
	"weft/graph/internal/lines"
	"weft/graph/internal/table"
	"weft/internal/foreign"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// Vertices reads a list of some of so many vertices, in its order, each once. The list is a file of numbers,
// as Beside.Train may be for one split, or a text whose first column has names, perhaps with a header. If
// there is no such file, the list itself has names or numbers between commas. names has the names of all
// vertices; nil: they have none. If one entry is a name, all are. header is the first line of a text of names
// if that line is no name. Complaints are refusals that name the list and the entry.
func Vertices(list string, names []string, vertices int) (some []int32, header string, err error) {
	_, err = os.Stat(list)
	typed := errors.Is(err, fs.ErrNotExist)
	entries, err := entriesOf(list, typed, names != nil)
	if err != nil {
		return nil, "", err
	}
	if found, named, err := find(entries, names); err != nil || named {
		if len(found) < len(entries) && err == nil {
			header = entries[0].text
		}
		return found, header, refusal.In(list, err)
	}
	read := func() (*npy.Array, error) { return arrays.ReadFile(list, int64(vertices)) }
	switch {
	case typed:
		read = func() (*npy.Array, error) { return numbersOf(list, entries) }
	case names == nil && entries != nil: // the first entry is a header without a name
		read = func() (*npy.Array, error) { return numbersOf(list, entries[1:]) }
	}
	a, err := read()
	if err != nil {
		return nil, "", err
	}
	ids, err := arrays.List(a, 0, vertices)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("%s: %w", list, err)
	case len(ids) == 0:
		return nil, "", refusal.Errorf("%s: names no vertex; give ids, or a mask that marks some", list)
	}
	some = make([]int32, len(ids))
	for i, v := range ids {
		some[i] = int32(v)
	}
	return some, "", nil
}

// entry is one of a list: a name, or a number.
type entry struct {
	text string
	at   string // where it stands, as "line 3"
}

// entriesOf returns the entries of three kinds of list, else nil: one that is typed, a text if vertices have
// names, and a text whose first line has no name, as the Python package writes names.
func entriesOf(list string, typed, named bool) (entries []entry, err error) {
	if typed {
		r := csv.NewReader(strings.NewReader(list)) // a name in quotes may have commas
		r.LazyQuotes, r.FieldsPerRecord = true, -1
		records, err := r.ReadAll()
		for k, text := range slices.Concat(records...) {
			entries = append(entries, entry{strings.TrimSpace(text), fmt.Sprintf("entry %d", k+1)})
		}
		return entries, err
	}
	f, err := arrays.Open(list)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil || f.Kind == foreign.Array {
		return nil, err
	}
	const longest = 1 << 20
	form := lines.Form{Path: list, Text: "names of vertices, one a line", Line: "a name", Longest: longest}
	separator := table.Separator(0)
	err = lines.Each(form, func(line []byte, number int64) (err error) {
		if separator == 0 {
			separator = table.SeparatorOf(line, ",;\t")
			if separator == ' ' {
				separator = ',' // a name may have spaces
			}
		}
		name, _, _ := separator.Cut(line)
		if !named && number == 1 && len(name) > 0 {
			return errNumbers
		}
		entries, err = memory.Append(entries, entry{string(name), fmt.Sprintf("line %d", number)})
		return err
	})
	if errors.Is(err, errNumbers) {
		return nil, nil
	}
	return entries, err
}

// errNumbers ends the reading of a text of numbers: another reader reads it.
var errNumbers = errors.New("a text of numbers")

// find finds the vertices that entries name. named: the entries are names, not numbers, and each must be
// found. The first line of a text may be a header.
func find(entries []entry, names []string) (found []int32, named bool, err error) {
	if len(entries) == 0 || names == nil || isMask(entries) {
		return nil, false, nil
	}
	if err := memory.Need(64 * int64(len(entries))); err != nil {
		return nil, false, err
	}
	first := make(map[string]int, len(entries)) // the first entry of each name
	for k, e := range entries {
		if _, again := first[e.text]; !again {
			first[e.text] = k
		}
	}
	found = slices.Repeat([]int32{-1}, len(entries))
	for v, name := range names {
		k, asked := first[name]
		if asked && found[k] >= 0 {
			return nil, true, fmt.Errorf("%s: vertices %d and %d have the name %.60q; give numbers, by "+
				"numpy.save", entries[k].at, found[k], v, name)
		}
		if asked {
			found[k], named = int32(v), true
		}
	}
	from := 0
	if entries[0].at == "line 1" && found[0] < 0 && len(entries) > 1 {
		from = 1
	}
	if !named && !slices.ContainsFunc(entries[from:], entry.isWord) {
		return nil, false, nil
	}
	for k, e := range entries {
		switch {
		case k < from || found[k] >= 0:
		case first[e.text] < k:
			return nil, true, fmt.Errorf("%s: %.60q is given twice, first by %s; name each vertex once", e.at,
				e.text, entries[first[e.text]].at)
		case len(entries) == 1 && e.at != "line 1":
			return nil, true, errNowhere
		default:
			return nil, true, fmt.Errorf("%s: no vertex has the name %.60q", e.at, e.text)
		}
	}
	return found[from:], true, nil
}

var errNowhere = errors.New("no such file or directory, and no vertex has this name")

// isWord reports whether an entry can be no number and no truth value.
func (e entry) isWord() bool {
	_, number := table.Number([]byte(e.text))
	return !number && e.text != "" && !e.isTruth()
}

// isTruth reports whether an entry can be a truth value.
func (e entry) isTruth() bool {
	return slices.Contains([]string{"0", "1", "true", "false"}, strings.ToLower(e.text))
}

// isMask reports whether entries, perhaps below a header, are truth values: three or more, all of them 0, 1,
// true or false.
func isMask(entries []entry) bool {
	if entries[0].isWord() {
		entries = entries[1:]
	}
	return len(entries) >= 3 && !slices.ContainsFunc(entries, func(e entry) bool { return !e.isTruth() })
}

// numbersOf are entries as numbers.
func numbersOf(list string, entries []entry) (*npy.Array, error) {
	ids := make([]int64, len(entries))
	for k, e := range entries {
		var err error
		switch ids[k], err = strconv.ParseInt(e.text, 10, 64); {
		case err != nil && len(entries) == 1 && e.at == "entry 1":
			return nil, refusal.In(list, errNowhere)
		case err != nil:
			return nil, refusal.Errorf("%s: %s: %.60q is no number, and the vertices have no names", list,
				e.at,
				e.text)
		}
	}
	return npy.New(ids, len(ids)), nil
}
