package columns

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weft/internal/refusal"
)

// Arrangement brings rows of features into the form of another list of columns. A nil
// Arrangement leaves them as they are.
type Arrangement struct {
	asked List
	width int
	moves []move
	means []mean
}

// move copies a feature, minus the difference of the lists' offsets.
type move struct {
	from, to int
	less     float64
}

// mean puts the other list's mean where a value is missing, as the feature gap says.
type mean struct {
	gap, to int
	value   float32
}

// Arrange returns what brings features of the supplied columns into the form of those asked for, by the
// names of columns and of categories; nil: they have it already. Notes name columns that are not asked for,
// and columns with unknown categories, whose rows have 0 in all features of the column. Arrange refuses a
// column that is missing or of another kind.
func Arrange(asked, supplied List) (a *Arrangement, notes []string, err error) {
	a = &Arrangement{asked: asked, width: asked.Width()}
	begins := make([]int, len(supplied))
	for i := 1; i < len(supplied); i++ {
		begins[i] = begins[i-1] + supplied[i-1].Width()
	}
	var lacking []string
	to := 0
	places := supplied.Places()
	used := asked.Places()
	for i := range asked {
		want := &asked[i]
		k, there := places[want.Name]
		if !there {
			lacking = append(lacking, want.Name)
			continue
		}
		have := &supplied[k]
		if have.Kind != want.Kind || !slices.Equal(have.Cycles, want.Cycles) {
			return nil, nil, refusal.Errorf("column %s is %s, where it was %s",
				want.Name, have.described(), want.described())
		}
		if note := a.add(want, have, to, begins[k]); note != "" {
			notes = append(notes, note)
		}
		to += want.Width()
	}
	if len(lacking) > 0 {
		return nil, nil, refusal.Errorf("there is no column %s", strings.Join(lacking, ", "))
	}
	var unused []string
	for i := range supplied {
		if _, is := used[supplied[i].Name]; !is {
			unused = append(unused, supplied[i].Name)
		}
	}
	if len(unused) > 0 {
		notes = append(notes, "columns that are not used: "+strings.Join(unused, ", "))
	}
	if slices.EqualFunc(asked, supplied, sameFeatures) {
		return nil, notes, nil
	}
	return a, notes, nil
}

// sameFeatures reports whether the same features are made of two columns.
func sameFeatures(a, b Column) bool {
	return a.Name == b.Name && a.Kind == b.Kind && a.Offset == b.Offset && a.Mean == b.Mean &&
		a.Gaps == b.Gaps && slices.Equal(a.Cycles, b.Cycles) && slices.Equal(a.Categories, b.Categories)
}

// described names the kind of a column for people.
func (c *Column) described() string {
	text := "a " + string(c.Kind)
	for _, cycle := range c.Cycles {
		text += " with its part of the " + string(cycle)
	}
	return text
}

// add adds the moves from the features of the column have, from number from on, to those of want, from number
// to on. It says which rows have unknown categories.
func (a *Arrangement) add(want, have *Column, to, from int) (note string) {
	end, gap := to+want.Width(), from+have.Width()-1
	if want.Gaps && have.Gaps {
		a.moves = append(a.moves, move{gap, end - 1, 0})
	}
	if want.Kind != Category {
		a.moves = append(a.moves, move{from, to, want.Offset - have.Offset})
		for k := range 2 * len(want.Cycles) {
			a.moves = append(a.moves, move{from + 1 + k, to + 1 + k, 0})
		}
		if have.Gaps {
			a.means = append(a.means, mean{gap, to, want.Mean})
		}
		return ""
	}
	other, unknown := have.Other, []string(nil)
	for k, value := range have.Categories {
		place, known := slices.BinarySearch(want.Categories, value)
		if known {
			a.moves = append(a.moves, move{from + k, to + place, 0})
		} else if k < len(have.Counts) {
			other += have.Counts[k]
			if have.Counts[k] > 0 {
				unknown = append(unknown, fmt.Sprintf("%.40q", value))
			}
		}
	}
	if other == 0 {
		return ""
	}
	rows := "rows have"
	if other == 1 {
		rows = "row has"
	}
	as := ""
	if len(unknown) > 0 {
		as = ", as " + refusal.List(unknown, 3) + ","
	}
	return fmt.Sprintf("column %s: %d %s values that are not known%s which count as other", want.Name, other, rows,
		cmp.Or(as, ","))
}

// Width is the number of features of an arranged row. columns is the number before that.
func (a *Arrangement) Width(columns int) int {
	if a == nil {
		return columns
	}
	return a.width
}

// Columns are the columns of which features are made once they are arranged. columns are those before that.
func (a *Arrangement) Columns(columns List) List {
	if a == nil {
		return columns
	}
	return a.asked
}

// Row brings a row into the form that was asked for, and returns it in room, which grows if needed. A nil
// Arrangement returns the row itself.
func (a *Arrangement) Row(room, row []float32) []float32 {
	if a == nil {
		return row
	}
	room = slices.Grow(room[:0], a.width)[:a.width]
	clear(room)
	for _, m := range a.moves {
		room[m.to] = float32(float64(row[m.from]) - m.less)
	}
	for _, m := range a.means {
		if row[m.gap] != 0 {
			room[m.to] = m.value
		}
	}
	return room
}
