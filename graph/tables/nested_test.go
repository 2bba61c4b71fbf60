package tables

import (
	"bytes"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"weft/graph/columns"
	"weft/internal/assert"
	"weft/internal/require"
)

type nestedEdge struct {
	Pair struct {
		A, B string
	} `parquet:"pair"`
	From  string `parquet:"p"`
	To    string `parquet:"q"`
	Label string `parquet:"label"`
	Size  int32  `parquet:"size"`
}

// TestNestedEdges: a list of edges may have columns of structures. They are not ends, and the others are
// found beside them.
func TestNestedEdges(t *testing.T) {
	var file bytes.Buffer
	require.NoError(t, parquet.Write(&file, []nestedEdge{
		{From: "a", To: "b", Label: "x", Size: 5}, {From: "b", To: "b", Label: "y", Size: 6},
	}))
	files(t, map[string]string{"v.csv": "id,x\na,1\nb,2\n", "e.parquet": file.String()})
	o := Options{Edges: []string{"e.parquet"}, Vertices: []string{"v.csv"}, Choices: columns.Choices{Most: 3}}
	assert.Equal(t, int64(2), read(t, o).Edges())

	o.EdgeLabel = "label"
	g := read(t, o)
	assert.Equal(t, 1, g.Relations[0].Features.Columns)
	assert.Equal(t, []float32{5, 6}, g.Relations[0].Features.Dense)

	o.EdgeLabel, o.Source, o.Target = "", []string{"pair"}, []string{"q"}
	s, err := Open(o)
	require.NoError(t, err)
	_, err = s.Read()
	assert.Refused(t, err, "e.parquet: column pair has a Parquet type that is not read, as of lists, "+
		"structures and bytes: write it as text or numbers, or name another column")
}

type nestedRow struct {
	ID   string `parquet:"id"`
	Pair struct {
		A, B int32
	} `parquet:"pair"`
	X    int32  `parquet:"x"`
	Long string `parquet:"long"`
}

// TestNestedLeftOut: a column that is not read may be left out by name. What is left out is not read.
func TestNestedLeftOut(t *testing.T) {
	var file bytes.Buffer
	long := strings.Repeat("x", 2<<20)
	require.NoError(t, parquet.Write(&file, []nestedRow{{ID: "a", Long: long}, {ID: "b"}}))
	files(t, map[string]string{"v.parquet": file.String(), "e.csv": "src,dst\na,b\n"})
	g := read(t, Options{
		Edges: []string{"e.csv"}, Vertices: []string{"v.parquet"},
		LeaveOut: []string{"pair", "long"}, Choices: columns.Choices{Most: 3},
	})
	assert.Equal(t, 1, g.Types[0].Features.Columns)
}
