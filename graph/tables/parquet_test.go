package tables

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/internal/alloctest"
	"weft/internal/assert"
	"weft/internal/require"
)

type plainEdge struct {
	Source int64 `parquet:"source"`
	Target int64 `parquet:"target"`
}

type weightedEdge struct {
	Note   string  `parquet:"note,dict,zstd"`
	Dst    int32   `parquet:"dst,dict"`
	Src    int32   `parquet:"SRC,delta,gzip"`
	Weight float64 `parquet:"weight,snappy"`
}

// blankEdge has names with blanks around them.
type blankEdge struct {
	Source int64   `parquet:" Source"`
	Target int64   `parquet:"target "`
	Weight float64 `parquet:" Weight "`
}

type optionalEdge struct {
	Zero *int64 `parquet:"0,optional,snappy"`
	One  *int64 `parquet:"1,optional,dict"`
}

type namedEdge struct {
	Source string `parquet:"source,dict,zstd"`
	Target string `parquet:"target,snappy"`
}

type featuredEdge struct {
	Size   int32   `parquet:"size"`
	Src    int32   `parquet:"src"`
	Note   float64 `parquet:"note"`
	Weight float32 `parquet:"weight"`
	Dst    int32   `parquet:"dst"`
}

type textFeature struct {
	Src  int32  `parquet:"src"`
	Dst  int32  `parquet:"dst"`
	Size string `parquet:"size"`
}

func tableOf[T any](t testing.TB, rows []T, options ...parquet.WriterOption) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, parquet.Write(&b, rows, options...))
	return b.String()
}

func TestListsOfParquet(t *testing.T) {
	at := func(v int64) *int64 { return &v }
	want := graph.Relation{Indptr: []int64{0, 1, 3, 3}, Sources: []int32{2, 0, 0}}
	weighted := want
	weighted.Weights = []float32{-.25, .5, 3}
	for _, c := range []reading{
		{"plain", tableOf(t, []plainEdge{{0, 1}, {2, 0}, {0, 1}}), false, want, nil},
		{
			"weights", tableOf(t, []weightedEdge{{"x", 1, 0, .5}, {"y", 0, 2, -.25}, {"x", 1, 0, 3}}),
			false, weighted, nil,
		},
		{
			"blanks in names", tableOf(t, []blankEdge{{0, 1, .5}, {2, 0, -.25}, {0, 1, 3}}),
			false, weighted, nil,
		},
		{
			"optional", tableOf(t, []optionalEdge{{at(0), at(1)}, {at(2), at(0)}, {at(0), at(1)}}), false,
			want, nil,
		},
		{
			"names", tableOf(t, []namedEdge{{"b", "a"}, {"c", "b"}, {"b", "a"}}), true, want,
			[]string{"b", "a", "c"},
		},
		{
			"integers as names", tableOf(t, []plainEdge{{-7, 1 << 40}, {9, -7}, {-7, 1 << 40}}), true, want,
			[]string{"-7", "1099511627776", "9"},
		},
	} {
		c.check(t, "edges.pq")
	}
}

// Many pages of every encoding, so that columns whose pages end at different rows stay in step.
func TestParquetPages(t *testing.T) {
	const n = 20_000
	rows := make([]weightedEdge, n)
	var want graph.Edges
	for k := range rows {
		source, target := int32(k*7919%n), int32(k*104729%n)
		rows[k] = weightedEdge{strings.Repeat("x", k%5), target, source, float64(k)}
		want.Source, want.Target = append(want.Source, source), append(want.Target, target)
		want.Weights = append(want.Weights, float32(k))
	}
	for version := 1; version <= 2; version++ {
		content := tableOf(t, rows, parquet.PageBufferSize(4096), parquet.DataPageVersion(version),
			parquet.MaxRowsPerRowGroup(n/3))
		g, err := openList(list{Path: graphtest.File(t, "edges.parquet", content)})
		require.NoError(t, err)
		var edges graph.Edges
		err = g.Relations[0].Each(func(e graph.Edges) error {
			edges.Source, edges.Target, edges.Weights = append(edges.Source, e.Source...),
				append(edges.Target, e.Target...), append(edges.Weights, e.Weights...)
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, want, edges, "page version %d: edges differ", version)
	}
}

func TestDamagedParquetIsRefused(t *testing.T) {
	good := tableOf(t, []plainEdge{{0, 1}, {2, 0}})
	id := int64(1)
	for _, c := range []struct{ content, want string }{
		{good[:len(good)-1], "cut short"},
		{good[:12], "cut short"},
		{"PAR1" + good[len(good)-8:], "cut short"},
		{tableOf(t, []struct{ A, B int64 }{{1, 2}}), `the columns are "A", "B", and which are the ends`},
		{tableOf(t, []namedEdge{{"a", "b"}}), `row 1: source: "a" is not a vertex id below 2147483647: if ids are names, import`},
		{tableOf(t, []plainEdge{{0, 1}, {0, -1}}), `row 2: target: "-1" is not a vertex id`},
		{tableOf(t, []optionalEdge{{&id, &id}, {&id, nil}}), `row 2: target: the id is empty`},
		{tableOf(t, []plainEdge{}), "has no edge"},
	} {
		path := graphtest.File(t, "edges.parquet", c.content)
		_, err := readList(list{Path: path})
		assert.RefusedFor(t, err, path, c.want)
	}
}

// allocated reads the file, which must be refused, and returns the bytes that it took.
func allocated(t *testing.T, content string) uint64 {
	t.Helper()
	path := graphtest.File(t, "edges.parquet", content)
	var err error
	took := alloctest.Bytes(func() { _, err = readList(list{Path: path}) })
	assert.Refused(t, err, "")
	return took
}

// A footer of a few bytes may claim a list of two billion columns.
func TestLyingFooterAllocatesLittle(t *testing.T) {
	footer := "\x15\x02" + "\x19\xfc\xff\xff\xff\xff\x07" // version 1; a list of 2³¹−1 structures
	content := "PAR1" + footer + string(binary.LittleEndian.AppendUint32(nil, uint32(len(footer)))) + "PAR1"
	if n := allocated(t, content); n > 16<<20 {
		t.Errorf("%d bytes were allocated for a file of %d", n, len(content))
	}
}

type namedLabel struct {
	Kind *string `parquet:"kind,optional,dict,zstd"`
}

type besideLabel struct {
	ID    int64  `parquet:"id"`
	Label string `parquet:"label,snappy"`
}

type numberLabel struct {
	Y int32 `parquet:"y"`
}

type gapLabel struct {
	Y *int64 `parquet:"y,optional"`
}

type idTwice struct {
	ID    int64  `parquet:"id"`
	Other int64  `parquet:"ie"`
	Label string `parquet:"label"`
}

type realLabel struct {
	Y float64 `parquet:"y"`
}

// TestParquetLabels: a column of labels has names of classes, class ids or values, as in text.
func TestParquetLabels(t *testing.T) {
	word, class := func(s string) *string { return &s }, func(y int64) *int64 { return &y }
	edges := graphtest.File(t, "e.csv", "0,1\n1,2\n2,0\n")
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		file string
		want graph.Labels
	}{
		"names": {
			tableOf(t, []namedLabel{{word("b")}, {nil}, {word("a")}}),
			graph.Labels{Classes: 2, Class: []int64{1, -1, 0}, Names: []string{"a", "b"}},
		},
		"beside": {
			tableOf(t, []besideLabel{{2, "b"}, {0, "c"}, {1, "b"}}),
			graph.Labels{Classes: 2, Class: []int64{1, 0, 0}, Names: []string{"b", "c"}},
		},
		"ids": {
			tableOf(t, []numberLabel{{1}, {-1}, {0}}), graph.Labels{Classes: 2, Class: []int64{1, -1, 0}},
		},
		"whole": {
			tableOf(t, []realLabel{{1}, {math.NaN()}, {0}}),
			graph.Labels{Classes: 2, Class: []int64{1, -1, 0}},
		},
		"values": {
			tableOf(t, []realLabel{{1.5}, {math.NaN()}, {0}}),
			graph.Labels{Columns: 1, Values: []float32{1.5, nan, 0}},
		},
	} {
		g, err := readList(list{Path: edges, Labels: graphtest.File(t, name+".parquet", c.file)})
		require.NoError(t, err, name)
		assert.EqualBy(t, c.want, g.Types[0].Labels, cmpopts.EquateNaNs())
	}
	for name, file := range map[string]string{
		"whole as values": tableOf(t, []realLabel{{1}, {math.NaN()}, {0}}),
		"ids as values":   tableOf(t, []gapLabel{{class(1)}, {nil}, {class(0)}}),
	} {
		g, err := readList(list{Path: edges, Labels: graphtest.File(t, "v.parquet", file), Values: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(graph.Labels{Columns: 1, Values: []float32{1, nan, 0}}, g.Types[0].Labels,
			cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	const text = `column "kind" holds text, and values to predict are numbers; leave --values out`
	_, err := readList(list{
		Path:   edges,
		Labels: graphtest.File(t, "k.parquet", tableOf(t, []namedLabel{{word("b")}, {nil}, {word("a")}})),
		Values: true,
	})
	assert.Refused(t, err, text)
	for want, file := range map[string]string{
		"which column has the labels?":        tableOf(t, []plainEdge{{0, 1}, {1, 2}, {2, 0}}),
		"has 2 rows, the graph of":            tableOf(t, []numberLabel{{1}, {0}}),
		"label 1990 of vertex 0: classes run": tableOf(t, []numberLabel{{1990}, {0}, {0}}),
		`row 2: column "id": the id 1 stands in 1 as well`: tableOf(t,
			[]besideLabel{{1, "b"}, {1, "c"}, {0, "b"}}),
		`two columns are called "id": rename one`: strings.ReplaceAll(
			tableOf(t, []idTwice{{0, 1, "b"}, {1, 0, "c"}}), "ie", "id"),
		"has no row for the id 2:":         tableOf(t, []besideLabel{{1, "b"}, {0, "c"}}),
		`"9000000" is not the id of`:       tableOf(t, []besideLabel{{9000000, "b"}}),
		"a Parquet file that is cut short": tableOf(t, []numberLabel{{1}, {0}, {0}})[:40],
	} {
		_, err := readList(list{Path: edges, Labels: graphtest.File(t, "y.parquet", file)})
		assert.Refused(t, err, want)
	}
}
