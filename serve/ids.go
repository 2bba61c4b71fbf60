package serve

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"weft/graph/columns"
	"weft/internal/refusal"
)

// id names a vertex in a request, as a JSON string or integer.
type id struct{ text string }

// UnmarshalJSON takes a string or an integer.
func (i *id) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, &i.text)
	}
	if _, err := strconv.ParseInt(string(text), 10, 64); err != nil {
		return refusal.Errorf("%.40s names no vertex; give its id, a string or an integer", text)
	}
	i.text = string(text)
	return nil
}

// trimmed is the id without outer blanks, as tables have it.
func (i id) trimmed() string { return strings.Trim(i.text, columns.Blank) }

// ids finds the vertices of a type by their ids: their names, or their numbers if they have no names.
type ids struct {
	count   int
	names   []string // nil: there are none
	ordered []int32  // the vertices, sorted by name
}

func newIDs(count int, names []string) *ids {
	d := &ids{count: count, names: names}
	for v := range names {
		d.ordered = append(d.ordered, int32(v))
	}
	slices.SortFunc(d.ordered, func(a, b int32) int { return cmp.Compare(names[a], names[b]) })
	return d
}

// find returns the vertex of an id.
func (d *ids) find(i id) (int32, error) {
	if d.names != nil {
		for _, text := range []string{i.text, i.trimmed()} { // other formats may keep blanks
			at, found := slices.BinarySearchFunc(d.ordered, text, func(v int32, name string) int {
				return cmp.Compare(d.names[v], name)
			})
			if found {
				return d.ordered[at], nil
			}
		}
		return 0, refusal.Errorf("no vertex is called %.100q; give the ids of the table or the list "+
			"that the store was made of", i.trimmed())
	}
	if v, err := strconv.ParseInt(i.trimmed(), 10, 32); err == nil && v >= 0 && int(v) < d.count {
		return int32(v), nil
	}
	return 0, refusal.Errorf("there is no vertex %.100s; vertices have the numbers 0 to %d", i.text,
		d.count-1)
}

// id returns the id of a vertex as answers have it: its name, or its number.
func (d *ids) id(v int32) any {
	if d.names != nil {
		return d.names[v]
	}
	return v
}
