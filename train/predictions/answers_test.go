package predictions

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/calibrate"
)

// logits of four vertices, whose outcomes are computed in double precision by Python's math.fsum.
var logits = []float32{.5, -1.25, 2, 3, 3, 1, 200, -200, 100, -.75, -.5, -1}

// answered writes a table of the logits and reads it, in both formats.
func answered(t *testing.T, table Table, columns int, header []string, want [][]any) {
	t.Helper()
	for ending, read := range map[string]func(*testing.T, string) ([]string, [][]any){
		".csv": readCSV, ".parquet": readParquet,
	} {
		path := filepath.Join(t.TempDir(), "p"+ending)
		require.NoError(t, Write(path, rowsOf(columns, logits...), table))
		got, cells := read(t, path)
		assert.Equal(t, header, got, ending)
		require.Len(t, cells, len(want), ending)
		for k, row := range cells {
			require.Len(t, row, len(want[k]), ending)
			for i, is := range row {
				if x, number := want[k][i].(float64); number {
					assert.Near(t, x, is.(float64), 1e-7*max(1, x), "%s: row %d, %s", ending, k, header[i])
				} else {
					assert.Equal(t, wanted(ending, want[k][i]), is, "%s: row %d, %s", ending, k, header[i])
				}
			}
		}
	}
}

func TestAnswers(t *testing.T) {
	names, classes := []string{"a", "b", "c", "d"}, []string{"cat", "=dog", "fox"}
	all := []Answer{Margin, Class, AllProbabilities, Entropy, Probability}
	answered(t, Table{Names: names, Classes: classes, Answers: all}, 3,
		[]string{
			"vertex", "name", "margin", "class", "probability_cat", "probability_=dog", "probability_fox",
			"entropy", "probability",
		},
		[][]any{
			{
				0, "a", 0.615632895458675, "fox", 0.17682018210744427, 0.030726740326436432,
				0.7924530775661193, 0.5977141623241176, 0.7924530775661193,
			},
			{
				1, "b", 0., "cat", 0.4683105308334812, 0.4683105308334812, 0.06337893833303762,
				0.8853815523455887, 0.4683105308334812,
			},
			{2, "c", 1., "cat", 1., 0., 3.720076e-44, 3.7200759760208363e-42, 1.},
			{
				3, "d", 0.09273311580986099, "'=dog", 0.3264958357998367, 0.4192289516096977,
				0.25427521259046565, 1.0780996496508704, 0.4192289516096977,
			},
		})
	answered(t, Table{Columns: LabelLogits, Answers: []Answer{AllProbabilities}}, 6,
		[]string{"vertex", "label_0", "label_1", "label_2", "label_3", "label_4", "label_5"},
		[][]any{
			{
				0, 0.6224593312018546, 0.22270013882530884, 0.8807970779778823, 0.9525741268224334,
				0.9525741268224334, 0.7310585786300049,
			},
			{1, 1., 0., 1., 0.32082130082460703, 0.3775406687981454, 0.2689414213699951},
		})
	answered(t, Table{Columns: Values, Answers: []Answer{Value}}, 3,
		[]string{"vertex", "value_0", "value_1", "value_2"},
		[][]any{{0, .5, -1.25, 2.}, {1, 3., 3., 1.}, {2, 200., -200., 100.}, {3, -.75, -.5, -1.}})
	answered(t, Table{Answers: []Answer{Class, AllProbabilities}, Order: Order{By: "entropy", Top: 2}}, 3,
		[]string{"vertex", "class", "probability_0", "probability_1", "probability_2"},
		[][]any{
			{3, "1", 0.3264958357998367, 0.4192289516096977, 0.25427521259046565},
			{1, "0", 0.4683105308334812, 0.4683105308334812, 0.06337893833303762},
		})
}

// Embeddings that were kept stand in the row of their vertex, in any order of rows.
func TestAnswersWithEmbeddings(t *testing.T) {
	kept, err := Keep("")
	require.NoError(t, err)
	defer kept.Close()
	for range kept.Watch(rowsOf(2, 1, 2, 3, 4, 5, 6, 7, 8)).Each {
	}
	require.NoError(t, kept.Err())
	answered(t, Table{
		Vertices: []int32{9, 4, 2, 7}, Answers: []Answer{Hidden, Class}, Embeddings: kept,
		Order: Order{By: "margin"},
	}, 3,
		[]string{"vertex", "embedding_0", "embedding_1", "class"},
		[][]any{{4, 3., 4., "0"}, {7, 7., 8., "1"}, {9, 1., 2., "2"}, {2, 5., 6., "0"}})
	clash := Table{
		Columns: LabelLogits, Answers: []Answer{AllProbabilities, Hidden}, Embeddings: kept,
		Classes: []string{"x", "y", "embedding_0"},
	}
	answered(t, clash, 3, []string{"vertex", "label_0", "label_1", "label_2", "embedding_0", "embedding_1"},
		[][]any{
			{0, 0.6224593312018546, 0.22270013882530884, 0.8807970779778823, 1., 2.},
			{1, 0.9525741268224334, 0.9525741268224334, 0.7310585786300049, 3., 4.},
			{2, 1., 0., 1., 5., 6.},
			{3, 0.32082130082460703, 0.3775406687981454, 0.2689414213699951, 7., 8.},
		})
}

// TestOrder: every order and number of first rows is what sorting all rows gives, ties by vertex.
func TestOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const vertices = 200
	values := make([]float32, vertices)
	for k := range values {
		values[k] = float32(random.IntN(30)) // many ties
	}
	for _, list := range [][]int32{nil, permutation(random, vertices)} {
		ids := list
		if ids == nil {
			ids = make([]int32, vertices)
			for k := range ids {
				ids[k] = int32(k)
			}
		}
		want := make([]string, vertices)
		rows := make([]int, vertices)
		for k := range rows {
			rows[k] = k
		}
		slices.SortFunc(rows, func(a, b int) int {
			if values[a] != values[b] {
				return int(values[b] - values[a]) // the largest first
			}
			return int(ids[a] - ids[b])
		})
		for k, row := range rows {
			want[k] = strconv.Itoa(int(ids[row]))
		}
		for _, top := range []int{0, 1, 7, vertices - 1, vertices, vertices + 1} {
			path := filepath.Join(t.TempDir(), "p.csv")
			require.NoError(t, Write(path, rowsOf(1, values...),
				Table{Columns: Values, Vertices: list, Order: Order{By: "value", Top: top}}))
			_, cells := readCSV(t, path)
			var got []string
			for _, row := range cells {
				got = append(got, fmt.Sprint(row[0]))
			}
			first := vertices
			if top > 0 {
				first = min(top, vertices)
			}
			assert.Equal(t, want[:first], got, "the first %d", top)
		}
	}
}

// TestSortNearOne: probabilities that are 1 in float32 are sorted by what they are in float64.
func TestSortNearOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.csv")
	require.NoError(t, Write(path, rowsOf(2, 0, 18, 0, 30, 0, 24, 1, 0), Table{
		Classes: []string{"no", "yes"}, Order: Order{By: "yes", Top: 3},
	}))
	_, cells := readCSV(t, path)
	assert.Equal(t, [][]any{{1, "yes", 1.}, {2, "yes", 1.}, {0, "yes", 1.}}, cells)
}

// TestSortWithinSteps: rows that a calibration gives one probability are in the order of the model's own,
// among all and among the first ones. Logits of yes less those of no are −3, 2, −1, 1, −2.
func TestSortWithinSteps(t *testing.T) {
	steps := calibrate.Steps{From: []float64{.2, .2 + 1e-9}, To: []float64{.25, .75}}
	logits := []float32{0, -3, 1, 3, 1, 0, 4, 5, 2, 0}
	for by, want := range map[string][]string{
		"yes": {"1", "3", "2", "4", "0"}, "-yes": {"0", "4", "2", "3", "1"},
	} {
		for top := 1; top <= 5; top++ {
			path := filepath.Join(t.TempDir(), "p.csv")
			require.NoError(t, Write(path, rowsOf(2, logits...), Table{
				Classes: []string{"no", "yes"}, Order: Order{By: by, Top: top},
				Answers: []Answer{AllProbabilities},
				Calibration: &calibrate.Calibration{
					Method: calibrate.Isotonic, Steps: []calibrate.Steps{steps},
				},
			}))
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			var vertices []string
			for _, line := range strings.Fields(string(text))[1:] {
				vertex, _, _ := strings.Cut(line, ",")
				vertices = append(vertices, vertex)
			}
			assert.Equal(t, want[:top], vertices, by)
		}
	}
}

func permutation(random *rand.Rand, n int) []int32 {
	list := make([]int32, n)
	for k, v := range random.Perm(n) {
		list[k] = int32(v)
	}
	return list
}

func TestAnswersRefused(t *testing.T) {
	for want, words := range map[string][]string{
		"columns margins: unknown; did you mean margin?": {"class", "margins"},
		"columns: class is given twice":                  {"class", " class"},
	} {
		_, err := ParseAnswers(words, false)
		assert.Refused(t, err, want)
	}
	for want, order := range map[string]Order{
		"--top 3: keeps the first rows of an order; give --sort, too": {Top: 3},
		"top -1: a number of rows from 1 was expected":                {By: "margin", Top: -1},
	} {
		assert.Refused(t, order.Check(), want)
	}
	for want, table := range map[string]Table{
		"columns value: the model predicts classes; give some of class, probability, margin": {
			Answers: []Answer{Class, Value},
		},
		"columns margin: the model predicts labels, of which a vertex may have several; give some of " +
			"class, probabilities, embedding": {Columns: LabelLogits, Answers: []Answer{Margin}},
		"columns class: the model predicts values; give some of value, embedding": {
			Columns: Values, Answers: []Answer{Class},
		},
		"columns embedding: the model computes embeddings, and the file has these alone": {
			Columns: Embedding, Answers: []Answer{Hidden},
		},
		"columns name: the vertices of this graph have no names; leave it out": {Answers: []Answer{Name}},
		"sort -value: the model predicts classes; give probability, margin, entropy, 0, 1": {
			Order: Order{By: "-value"},
		},
		"sort -probabilit: unknown; did you mean probability?": {Order: Order{By: "-probabilit"}},
		"sort ctas: unknown; did you mean cats?": {
			Order: Order{By: "ctas"}, Classes: []string{"cats", "dogs"},
		},
		"sort margin: the model predicts labels, of which a vertex may have several; give 0, 1": {
			Columns: LabelLogits, Order: Order{By: "margin"},
		},
		"sort 2: the model predicts values; give value_0, value_1": {Columns: Values, Order: Order{By: "2"}},
		"sort value: the model computes embeddings, by which no table is sorted": {
			Columns: Embedding, Order: Order{By: "value"},
		},
		"change: compares with the predictions before an addition": {Order: Order{By: "-change"}},
	} {
		_, err := table.Check(2)
		assert.Refused(t, err, want)
	}
}

// TestSortsBy: a class stands for its probability, whose largest comes first; a column of the same name goes
// first, and a - reverses.
func TestSortsBy(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	for _, c := range []struct {
		by          string
		table       Table
		key         Key
		first, last string // of the vertices
	}{
		{"dog", Table{Classes: []string{"cat", "dog", "fox"}}, Key{Column: "probability_dog"}, "b", "c"},
		{
			"-dog",
			Table{Classes: []string{"cat", "dog", "fox"}},
			Key{Column: "probability_dog", Ascends: true},
			"c", "b",
		},
		{
			"probability_dog",
			Table{Classes: []string{"cat", "dog", "fox"}},
			Key{Column: "probability_dog"},
			"b", "c",
		},
		{"2", Table{}, Key{Column: "probability_2"}, "a", "c"},
		{"-", Table{Classes: []string{"cat", "-", "fox"}}, Key{Column: "probability_-"}, "b", "c"},
		{
			"margin",
			Table{Classes: []string{"cat", "margin", "fox"}},
			Key{Column: "margin", Ascends: true, Other: "probability_margin"},
			"b", "c",
		},
		{"-probability", Table{}, Key{Column: "probability"}, "c", "d"},
		{"-entropy", Table{}, Key{Column: "entropy", Ascends: true}, "c", "d"},
		{"y", Table{Columns: LabelLogits, Classes: []string{"x", "y", "z"}}, Key{Column: "y"}, "b", "c"},
		{"label_1", Table{Columns: LabelLogits}, Key{Column: "label_1"}, "b", "c"},
		{"-value_2", Table{Columns: Values}, Key{Column: "value_2", Ascends: true}, "d", "c"},
	} {
		c.table.Names, c.table.Order = names, Order{By: c.by}
		c.table.Answers = []Answer{Given(c.table.Columns)[0], Name}
		key, err := c.table.Check(3)
		require.NoError(t, err, c.by)
		assert.Equal(t, c.key, Key{Column: key.Column, Ascends: key.Ascends, Other: key.Other}, c.by)
		path := filepath.Join(t.TempDir(), "p.csv")
		require.NoError(t, Write(path, rowsOf(3, logits...), c.table))
		header, cells := readCSV(t, path)
		assert.Equal(t, "name", header[len(header)-1])
		assert.Equal(t, false, slices.Contains(header, "vertex"), "a name that is asked for stands alone")
		assert.Equal(t, []any{c.first, c.last}, []any{cells[0][len(header)-1], cells[3][len(header)-1]}, c.by)
	}
}

// TestRowsThatAreMissing: a table of fewer rows than were announced is an error, and no file.
func TestRowsThatAreMissing(t *testing.T) {
	for _, order := range []Order{{}, {By: "value"}} {
		rows := rowsOf(1, 1, 2)
		rows.Vertices = 3
		path := filepath.Join(t.TempDir(), "p.csv")
		err := Write(path, rows, Table{Columns: Values, Order: order})
		assert.ErrorContains(t, err, "2 of 3 rows came")
		_, err = os.Stat(path)
		assert.ErrorIs(t, err, fs.ErrNotExist)
	}
}

// A table of edges has the columns of its number and both ends, or some of these where they are asked for.
func TestAnswersOfEdges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.csv")
	ends := [][2]int32{{0, 1}, {1, 0}, {1, 1}}
	for _, c := range []struct {
		asked string
		added bool
		order Order
		want  string
	}{
		{"class", false, Order{}, "edge,payer,payee,class\n0,a,d,yes\n1,b,c,no\n2,b,d,yes\n"},
		{"payee class", false, Order{By: "-edge", Top: 2}, "payee,class\nd,yes\nc,no\n"},
		{"class target row", true, Order{By: "row", Top: 2}, "class,payee,row\nyes,d,0\nno,c,1\n"},
		{"edge", false, Order{By: "yes", Top: 1}, "edge\n2\n"},
	} {
		answers, err := ParseAnswers(strings.Fields(c.asked), true)
		require.NoError(t, err)
		table := Table{
			Classes: []string{"no", "yes"}, Answers: answers, Order: c.order,
			Edges: &EdgeEnds{
				Columns: [2]string{"payer", "payee"}, Names: [2][]string{{"a", "b"}, {"c", "d"}},
				Added: c.added,
				Ends:  func(edge int) [2]int32 { return ends[edge] },
			},
		}
		_, err = table.Check(2)
		require.NoError(t, err)
		require.NoError(t, Write(path, rowsOf(2, 0, 1, 1, 0, 0, 2), table))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, c.want, string(text))
	}

	for want, asked := range map[string][]string{
		"columns vertex: the rows are edges; give some of edge, payer, payee": {"vertex", "class"},
		"columns name: the rows are edges; give some of edge, payer, payee":   {"name"},
		"columns row: the edges are the graph's own; give edge":               {"row"},
		"columns payeee: unknown; did you mean payee?":                        {"payeee"},
		"columns source: is given twice":                                      {"payer", "source"},
	} {
		answers, err := ParseAnswers(asked, true)
		require.NoError(t, err)
		_, err = (&Table{Answers: answers, Edges: &EdgeEnds{Columns: [2]string{"payer", "payee"}}}).Check(2)
		assert.Refused(t, err, want)
	}
	_, err := (&Table{Answers: []Answer{"edge"}, Edges: &EdgeEnds{Added: true}}).Check(2)
	assert.Refused(t, err, "columns edge: new edges have no number in the graph; give row, that of the file")
	_, err = ParseAnswers([]string{"edge"}, false)
	assert.Refused(t, err, "columns edge: is of a table of edges, and this one is of vertices; give vertex or name")
}

// TestReserved: an end of edges has no column of the name of an answer, or of one that begins as those of
// several columns do.
func TestReserved(t *testing.T) {
	for name, want := range map[string]bool{
		"class": true, "change": true, "edge": true, "row": true, "probability_yes": true, "value_1": true,
		"embedding_0": true, "old_class": true, "old_probability": true,
		"payer": false, "source": false, "target": false, "old": false, "older_one": false,
		"values": false, "": false,
	} {
		assert.Equal(t, want, Reserved(name), name)
	}
}
