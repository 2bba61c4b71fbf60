package tables

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/graph/appended"
	"weft/graph/columns"
	"weft/internal/assert"
	"weft/internal/require"
)

// dividedTable is a random table of vertices PREFIX0, PREFIX1, …, of which the first part is there before
// the second.
func dividedTable(random *rand.Rand, prefix string) (old, more []string) {
	all, first := 20+random.IntN(40), 10+random.IntN(10)
	for v := range all {
		size, city, kind := fmt.Sprint(random.IntN(99)), string("xyz"[random.IntN(3)]), string("ab"[v%2])
		if random.IntN(5) == 0 {
			size, city = "", "other"
		}
		if v > 1 && random.IntN(4) == 0 {
			kind = ""
		}
		row := fmt.Sprintf("%s%d,%s,%s,%s", prefix, v, size, city, kind)
		if v < first {
			old = append(old, strings.Replace(row, "other", "", 1))
		} else {
			more = append(more, row)
		}
	}
	return old, more
}

// TestAppendIsImport: the stores of 50 random graphs to which tables were appended have, bit by bit, what an
// import of all rows and edges has whose columns are like the first tables'.
func TestAppendIsImport(t *testing.T) {
	const header, ends = "id,size,city,kind\n", "source,target,much,when,fraud\n"
	text := func(header string, rows ...[]string) string {
		return header + strings.Join(slices.Concat(rows...), "\n") + "\n"
	}
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 51))
		written, types := map[string]string{}, 1+int(seed%2)
		var first, more, all Options
		for _, o := range []*Options{&first, &more, &all} {
			o.Label, o.Choices.Most = "kind", 9
			if types == 1 {
				o.EdgeWeights, o.EdgeFeatures = "much", []string{"when"}
				o.EdgeLabel = "fraud"
				if seed%8 < 4 {
					o.EdgeSplitBy = graph.SplitBy{Column: "when", Kind: graph.ByNumber}
				}
			} else {
				o.Label = "p:kind"
			}
		}
		rows := map[string][2]int{} // of each type, before and after
		for _, kind := range []string{"p", "s"}[:types] {
			old, further := dividedTable(random, kind)
			if kind == "s" { // has no label
				for _, list := range [][]string{old, further} {
					for i := range list {
						list[i] = list[i][:strings.LastIndex(list[i], ",")+1]
					}
				}
			}
			rows[kind] = [2]int{len(old), len(old) + len(further)}
			written[kind+".old"], written[kind+".new"] = text(header, old), text(header, further)
			written[kind+".all"] = text(header, old, further)
			first.Vertices, more.Vertices = append(first.Vertices, kind+"="+kind+".old"),
				append(more.Vertices, kind+"="+kind+".new")
			all.Vertices = append(all.Vertices, kind+"="+kind+".all")
		}
		for _, target := range []string{"p", "s"}[:types] {
			edges := func(version, most int) (list []string) {
				for range 5 + random.IntN(60) {
					label := []string{"", "no", "yes"}[random.IntN(3)]
					if seed%4 == 2 {
						label = []string{"", ".5", "7"}[random.IntN(3)]
					}
					list = append(list, fmt.Sprintf("p%d,%s%d,%d,%d,%s",
						random.IntN(rows["p"][version]), target, random.IntN(rows[target][version]+most),
						random.IntN(9), random.IntN(9), label))
				}
				return list
			}
			old, further := edges(0, 0), edges(1, 3) // which have ends without a row
			for _, label := range map[bool][]string{false: {"no", "yes"}, true: {".5"}}[seed%4 == 2] {
				old = append(old, "p0,"+target+"0,1,1,"+label) // all classes are there
			}
			name := "to" + target
			written[name+".old"], written[name+".new"] = text(ends, old), text(ends, further)
			written[name+".all"] = text(ends, old, further)
			first.Edges, more.Edges = append(first.Edges, name+"="+name+".old"),
				append(more.Edges, name+"="+name+".new")
			all.Edges = append(all.Edges, name+"="+name+".all")
		}
		files(t, written)
		first.EdgeSplits = func(l *graph.Frame) error { return l.MakeSplits("random:60/20/20", 2, seed) }
		base := inMemory(t, first)
		all.Like = LikeGraph(base)
		more.Label, more.EdgeLabel, more.EdgeSplitBy, more.LabelledEdges = "kind", "", graph.SplitBy{}, true
		added, err := Add(more, base)
		require.NoError(t, err)
		with, err := appended.On(base).With(added)
		require.NoError(t, err)
		store := filepath.Join(t.TempDir(), "store")
		_, err = with.Write(store, base.Provenance, nil)
		require.NoError(t, err)
		got, err := graph.Open(store)
		require.NoError(t, err)
		assert.EqualBy(t, inMemory(t, all), got,
			cmpopts.IgnoreUnexported(graph.Graph{}), cmpopts.EquateEmpty(),
			cmpopts.IgnoreFields(graph.Graph{}, "Provenance", "Notes"),
			cmpopts.IgnoreFields(columns.Table{}, "Path", "LeftOut"),
			cmpopts.IgnoreFields(graph.Frame{}, "Splits"), cmpopts.EquateNaNs())
		if types == 1 {
			assert.Equal(t, divided(&base.Relations[0]), divided(&got.Relations[0]))
		}
		require.NoError(t, got.Close())
	}
}

// divided are the edges of each part of the splits of a relation's edges, in the order of the store.
func divided(r *graph.Relation) (parts [][]string) {
	for i := range r.Splits {
		for _, list := range r.Splits[i].Parts() {
			var edges []string
			for _, k := range *list {
				u, v := r.EndsOf(k)
				label := r.OfRows([]int64{k})
				edges = append(edges, fmt.Sprint(u, v, r.Weights[k], r.Features.Dense[k], label))
			}
			parts = append(parts, edges)
		}
	}
	return parts
}

// inMemory reads a graph.
func inMemory(t *testing.T, o Options) *graph.Graph {
	t.Helper()
	s, err := Open(o)
	require.NoError(t, err)
	g, err := s.Read()
	require.NoError(t, err)
	return g
}

// TestAppendDates: the column that divides the edges is read by the order of day and month that the store's
// dates have, whether or not it is a feature.
func TestAppendDates(t *testing.T) {
	const header = "source,target,amount,paid,fraud\n"
	for paid, want := range map[string]string{"13/01/2024": "2024-04-03", "01/13/2024": "2024-03-04"} {
		for _, features := range [][]string{{"amount"}, {"amount", "paid"}} {
			files(t, map[string]string{
				"e.csv":   header + "0,1,1," + paid + ",no\n1,0,2," + paid + ",yes\n",
				"new.csv": header + "0,1,3,03/04/2024,no\n",
			})
			g := read(t, Options{
				Edges: []string{"e.csv"}, EdgeFeatures: features, EdgeLabel: "fraud",
				EdgeSplitBy: graph.SplitBy{Column: "paid"},
			})
			store := filepath.Join(t.TempDir(), "store")
			require.NoError(t, g.Write(store))
			g, err := graph.Open(store)
			require.NoError(t, err)
			added, err := Add(Options{Edges: []string{"new.csv"}, LabelledEdges: true}, g)
			require.NoError(t, err)
			day, err := time.Parse(time.DateOnly, want)
			require.NoError(t, err)
			assert.Equal(t, []float64{float64(day.Unix())}, added.Frames[0].SplitBy.Values)
			require.NoError(t, g.Close())
		}
	}
}

// TestAppendLabels: labels of new vertices are classes and values of the graph, or refused.
func TestAppendLabels(t *testing.T) {
	with := func(old, label string) (graph.Labels, error) {
		files(t, map[string]string{
			"v.csv": "id,size,kind\na,1,\nb,2," + old + "\n", "e.csv": "source,target\na,b\n",
			"new.csv": "id,kind,size\nc," + label + ",3\nd,,4\n",
		})
		base := read(t, Options{Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}, Label: "kind"})
		added, err := Add(Options{Vertices: []string{"new.csv"}, Label: "kind"}, base)
		if err != nil {
			return graph.Labels{}, err
		}
		return added.Labels, nil
	}
	got, err := with("1", "1.0") // as pandas writes a column with gaps
	require.NoError(t, err)
	assert.Equal(t, []int64{0, -1}, got.Class)
	got, err = with("1", "-1")
	require.NoError(t, err)
	assert.Equal(t, []int64{-1, -1}, got.Class)
	got, err = with("-1", "-1.0") // a class of the graph
	require.NoError(t, err)
	assert.Equal(t, []int64{0, -1}, got.Class)
	got, err = with("0.5", "7")
	require.NoError(t, err)
	assert.Equal(t, 2, len(got.Values))
	assert.Equal(t, float32(7), got.Values[0])
	got, err = with("0.5", "")
	require.NoError(t, err)
	assert.Equal(t, 2, len(got.Values))
	_, err = with("0.5", "x")
	refused(t, err, `new.csv: column kind: the labels of the graph are values, and not all here are numbers`)
	_, err = with("x", "y")
	refused(t, err, `new.csv: column kind: the graph has no class "y", but "x"; models of the graph cannot `+
		`tell another: leave the field empty, or import all again`)
}

// TestLikeOnly: a store of one table tells how another one table is read, and takes new vertices, whatever
// the types are called, also where no column has become a feature.
func TestLikeOnly(t *testing.T) {
	files(t, map[string]string{
		"v.csv": "id,size,kind\na,1,x\nb,2,y\n", "bare.csv": "id,kind\na,x\nb,y\n",
		"e.csv": "source,target\na,b\n", "f.csv": "source,target\nb,a\n", "new.csv": "id,age,size\nc,4,3\n",
	})
	untyped, typed := []string{"e.csv"}, []string{"e.csv", "f.csv"}
	for _, lists := range [][]string{untyped, typed} {
		base := read(t, Options{Edges: lists, Vertices: []string{"v.csv"}, Label: "kind"})
		for _, later := range [][]string{untyped, typed} {
			o := Options{Edges: later, Vertices: []string{"w=v.csv"}, Like: LikeGraph(base)}
			assert.Equal(t, base.Types[0].Table.Columns, read(t, o).Types[0].Table.Columns)
		}
		added, err := Add(Options{Vertices: []string{"new.csv"}}, base)
		require.NoError(t, err)
		assert.Equal(t, []float32{3}, added.Types[0].Features.Dense)

		bare := read(t, Options{Edges: lists, Vertices: []string{"bare.csv"}, Label: "kind"})
		got := read(t, Options{Edges: lists, Vertices: []string{"v.csv"}, Like: LikeGraph(bare)})
		assert.Equal(t, 0, got.Types[0].Features.Columns)
		assert.Equal(t, "size", got.Types[0].Table.LeftOut[0].Name)
		added, err = Add(Options{Vertices: []string{"new.csv"}}, bare)
		require.NoError(t, err)
		assert.Equal(t, []string{"new.csv: columns that are not used: age, size"}, added.Notes)
	}
}

// TestLaterTable: what is like a table need not have its labels; without its column of ids it is refused in
// words that a command with the settings of an addition has.
func TestLaterTable(t *testing.T) {
	files(t, map[string]string{
		"v.csv": "id,size,kind\na,1,0.5\nb,2,3\n", "e.csv": "source,target\na,b\n",
		"later.csv": "id,size,kind\na,1,\nb,2,\n", "no.csv": "who,size\nc,3\n",
		"twice.csv": "id,size\nc,3\nc,4\n", "far.csv": "source,target\nx,y\n",
	})
	base := read(t, Options{Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}, Label: "kind"})
	later := read(t, Options{
		Edges: []string{"e.csv"}, Vertices: []string{"later.csv"}, Like: LikeGraph(base),
	})
	assert.Equal(t, false, later.Types[0].Labels.There())
	assert.Equal(t, "", later.Types[0].Table.Label)
	for want, o := range map[string]Options{
		`no.csv:1: there is no column id, which has the ids of the graph's vertices: there are "who", "size"`: {
			Vertices: []string{"no.csv"},
		},
		`twice.csv:3: the id "c" stands in row 1 as well: give each vertex one row`: {
			Vertices: []string{"twice.csv"},
		},
		"far.csv: no end of an edge is the id of a vertex that the graph or a table has: name the columns of " +
			"the ends with --source and --target": {Edges: []string{"far.csv"}},
	} {
		_, err := Add(o, base)
		refused(t, err, want)
	}
}

// TestEdgeDates: features of edges are dates where those of vertices are, in days since 1970, and truth
// values. Another list of the relation is read by the same columns, whose dates have the same order.
func TestEdgeDates(t *testing.T) {
	const days, header = 20454, "source,target,w,when,new\n" // until 2026
	readRows := func(rows string) *graph.Graph {
		files(t, map[string]string{"v.csv": "id,size\na,1\nb,2\n", "e.csv": header + rows})
		return read(t, Options{
			Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}, EdgeWeights: "w",
			EdgeFeatures: []string{"new", "when"},
		})
	}
	for rows, want := range map[string][]float32{
		"a,b,5,2026-01-02,true\nb,a,6,2026-01-01 12:00,false\n": {0, days + .5, 1, days + 1},
		"a,b,5,02.01.2026,yes\nb,a,6,31.01.2026,no\n":           {0, days + 30, 1, days + 1},
		"a,b,5,1/2/2026,1\nb,a,6,1/31/2026,0\n":                 {0, days + 30, 1, days + 1},
		"a,b,5,20260102,1\nb,a,6,1767225600,0\n":                {0, 1767225600, 1, 20260102},
		"a,b,5,2026-01-02T00:00:00Z,1\nb,a,6,2026-02-01,-2.5\n": {-2.5, days + 31, 1, days + 1},
		"a,b,5,02/01/2026,TRUE\nb,a,6,03/01/2026 06:00,False\n": {0, days + 2.25, 1, days + 1},
	} {
		g := readRows(rows)
		assert.Equal(t, want, g.Relations[0].Features.Dense, rows)
		assert.Equal(t, []float32{6, 5}, g.Relations[0].Weights)
	}
	assert.Equal(t, "e.csv: column when: dates as “02/01/2026” do not say which number is the day: the first "+
		"one is taken for it; write them as 2023-01-31 if it is the month",
		readRows("a,b,5,02/01/2026,1\nb,a,6,03/01/2026,1\n").Warnings[0])
	for sign := range map[string]bool{"": true, "-": true} {
		assert.Equal(t, []string{"e.csv: column when: float32 makes " + sign + "1767225600 of " + sign + "1767225601; " +
			"subtract what all have in common, as the least"}, readRows("a,b,5,1767225600,1\nb,a,6,"+sign+
			"1767225601,1\na,a,6,"+sign+"1767225603,1\n").Notes)
	}

	g := readRows("a,b,5,1/31/2026,1\nb,a,6,1/2/2026,0\n") // the month first
	assert.Equal(t, columns.List{
		{Name: "w", Kind: columns.Number},
		{Name: "new", Kind: columns.Number},
		{Name: "when", Kind: columns.Date, Order: columns.MonthFirst},
	}, g.Relations[0].NumberColumns)
	files(t, map[string]string{
		"v.csv": "id,size\na,1\nb,2\n", "more.csv": header + "a,c,7,3/1/2026,2\n",
		"other.csv": "source,target,on,much,fresh\nc,a,3/1/2026,7,2\n",
	})
	named := Options{Edges: []string{"other.csv"}, EdgeWeights: "much", EdgeFeatures: []string{"fresh", "on"}}
	for _, o := range []Options{{Edges: []string{"more.csv"}}, named} {
		added, err := Add(o, g)
		require.NoError(t, err)
		assert.Equal(t, []float32{2, days + 59}, added.Edges[0].Features)
		assert.Equal(t, []float32{7}, added.Edges[0].Weights)
		o.Vertices, o.Like = []string{"v.csv"}, LikeGraph(g)
		later := read(t, o)
		assert.Equal(t, []float32{2, days + 59}, later.Relations[0].Features.Dense)
		assert.Equal(t, []float32{7}, later.Relations[0].Weights)
	}

	files(t, map[string]string{"more.csv": header + "a,b,16777219,3/1/2026,2\n"})
	added, err := Add(Options{Edges: []string{"more.csv"}}, g)
	require.NoError(t, err)
	assert.Equal(t, []string{"more.csv: column w: float32 makes 16777220 of 16777219; subtract what all have in common, " +
		"as the least"}, added.Notes)

	const number = "is no finite number, and features of edges are numbers, dates or booleans"
	for _, c := range [][2]string{
		{"a,b,5,31.1.2026,1\nb,a,5,32.1.2026,1\na,a,5,3.1.2026,1\n", `2: column when: "31.1.2026" ` + number},
		{"a,b,5,2026-01-31,1\nb,a,5,,1\n", `3: column when: "" is no date, as the other rows have`},
		{"a,b,,2026-01-31,1\n", `2: column w: "" is no finite number, and weights of edges are numbers: correct it, ` +
			`or leave the row or the column out`},
		{"a,b,5,,1\nb,a,5,2026-01-31,1\n", `2: column when: "" is no date, as the other rows have`},
		{"a,b,5,7,1\nb,a,5,2026-01-31,1\n", `3: column when: "2026-01-31" ` + number},
		{"a,b,2026-01-31,2026-01-31,1\n", `2: column w: "2026-01-31" is no finite number, and weights of edges`},
		{"a,b,5,2026-01-31,x\nb,a,5,2,y\n", `2: column when: "2026-01-31" ` + number},
		{strings.Repeat("a,b,5,2026-01-31,1\n", 10) + "a,b,5,soon,1\n", `12: column when: "soon" is no date`},
	} {
		files(t, map[string]string{"v.csv": "id,size\na,1\nb,2\n", "e.csv": header + c[0]})
		g, err := Open(Options{
			Edges: []string{"e.csv"}, Vertices: []string{"v.csv"}, EdgeWeights: "w",
			EdgeFeatures: []string{"when", "new"},
		})
		require.NoError(t, err)
		_, err = g.Read()
		assert.Refused(t, err, "e.csv:"+c[1])
	}
}
