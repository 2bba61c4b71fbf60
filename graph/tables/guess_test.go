package tables

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestLook: kinds and first values of Parquet, as columns.py wrote them; what is not read is not shown.
func TestLook(t *testing.T) {
	l, err := NewLook(filepath.Join("testdata", "pyarrow.parquet"))
	require.NoError(t, err)
	var seen []string
	for _, c := range l.Columns {
		seen = append(seen, c.Name+" "+c.Kind+" "+c.Example)
	}
	assert.Equal(t, []string{
		"id category a", "i8 number 1", "u32 number 1", "u64 number 1", "f64 number 10000000000",
		"bool boolean true", "text category x", "large category x", "dictionary category x",
		"date date 2023-01-31", "seconds date 2023-01-31T12:00:00", "zone date 2023-01-31T12:00:00",
		"decimal number 1.25",
	}, seen[:13])
}

// TestGuess: which of two files is the table, and its columns, without more flags than are needed.
func TestGuess(t *testing.T) {
	t.Chdir(t.TempDir())
	var edges, numbers, people, indexed, wide strings.Builder
	edges.WriteString("no,payer,payee,pieces\n")
	numbers.WriteString("no,payer,payee,pieces\n")
	people.WriteString("who,joined,y,note\n")
	indexed.WriteString(",who,kind,old\n")
	wide.WriteString("who")
	for k := range 200 {
		fmt.Fprintf(&wide, ",x%d", k)
	}
	for i := range 1500 {
		source, target := i*7%1000, i*11%1000
		fmt.Fprintf(&edges, "%d,p%d,p%d,%d\n", i, source, target, i%5)
		fmt.Fprintf(&numbers, "%d,%d,%d,%d\n", i, source, target, i%5)
	}
	for i := range 1000 {
		fmt.Fprintf(&people, "p%d,2023-01-%02d,%d,n %d\n", i, 1+i%28, i%3, i)
		fmt.Fprintf(&indexed, "%d,%d,%d,%v\n", i, 999-i, i%3, i%2 == 0)
		fmt.Fprintf(&wide, "\np%d%s", i, strings.Repeat(fmt.Sprintf(",%d", i%300), 200))
	}
	files(t, map[string]string{
		"edges.csv": edges.String(), "numbers.csv": numbers.String(), "people.csv": people.String(),
		"indexed.csv": indexed.String(), "wide.csv": wide.String() + "\n", "ends.csv": "src,dst\na,b\nb,c\n",
	})
	for name, c := range map[string]struct{ asked, want Options }{
		"a list": {
			Options{Edges: []string{"edges.csv"}},
			Options{
				Edges: []string{"edges.csv"}, Vertices: []string{"VERTICES.csv"}, Source: []string{"payer"},
				Target: []string{"payee"}, Label: "COLUMN",
			},
		},
		"a list of known names": {
			Options{Edges: []string{"ends.csv"}},
			Options{Edges: []string{"ends.csv"}, Vertices: []string{"VERTICES.csv"}, Label: "COLUMN"},
		},
		"a table": {
			Options{Edges: []string{"people.csv"}},
			Options{Edges: []string{"EDGES.csv"}, Vertices: []string{"people.csv"}, Label: "y"},
		},
		"a wide table": {
			Options{Edges: []string{"wide.csv"}},
			Options{Edges: []string{"EDGES.csv"}, Vertices: []string{"wide.csv"}, Label: "COLUMN"},
		},
		"both": {
			Options{Edges: []string{"edges.csv"}, Vertices: []string{"people.csv"}, Label: "note"},
			Options{Edges: []string{"edges.csv"}, Vertices: []string{"people.csv"}, Label: "note"},
		},
		"exchanged, with one end": {
			Options{
				Edges: []string{"people.csv"}, Vertices: []string{"edges.csv"}, Target: []string{"payer"},
			},
			Options{
				Edges: []string{"edges.csv"}, Vertices: []string{"people.csv"}, Source: []string{"payee"},
				Target: []string{"payer"}, Label: "y",
			},
		},
		"numbers, and an index": {
			Options{Edges: []string{"numbers.csv"}, Vertices: []string{"indexed.csv"}, ID: []string{"kind"}},
			Options{
				Edges: []string{"numbers.csv"}, Vertices: []string{"indexed.csv"}, Source: []string{"payer"},
				Target: []string{"payee"}, ID: []string{"who"}, Label: "old",
			},
		},
	} {
		guess, _, err := Guess(c.asked)
		require.NoError(t, err)
		assert.Equal(t, c.want, *guess, "%s", name)
	}
	guess, looks, err := Guess(Options{Edges: []string{"edges.csv", "numbers.csv"}})
	require.NoError(t, err)
	assert.Equal(t, true, guess == nil && len(looks) == 2)
}
