package debian

import (
	"math"
	"slices"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

func TestWords(t *testing.T) {
	for synopsis, want := range map[string][]string{
		"":                                   nil,
		"a b c":                              nil,
		"GNU R package (3D plots)":           {"gnu", "package", "3d", "plots"},
		"client/server -- TCP/IP, C++ & Qt5": {"client", "server", "tcp", "ip", "qt5"},
		"Éditeur d'équations":                {"éditeur", "équations"},
		"\xff\xfe bytes":                     {"bytes"},
	} {
		assert.Equal(t, want, slices.Collect(words(synopsis)), "words(%q)", synopsis)
	}
}

func described(t *testing.T, synopses ...string) graph.Features {
	t.Helper()
	f, err := describe(synopses)
	require.NoError(t, err)
	return f
}

// The rows against a dense computation by the formula of describe.
func TestDescribe(t *testing.T) {
	synopses := []string{
		"the library, the shared library", "", "a library of graphs", "graphs, citations and graphs", "X",
	}
	f := described(t, synopses...)
	require.Equal(t, FeatureColumns, f.Columns)
	require.Len(t, f.Indptr, len(synopses)+1)
	require.Equal(t, len(f.Indices), int(f.Indptr[len(synopses)]))
	tf := make([][FeatureColumns]float64, len(synopses))
	var df [FeatureColumns]float64
	for v, synopsis := range synopses {
		for word := range words(synopsis) {
			c, sign := hashed(word)
			tf[v][c] += float64(sign)
		}
		for c, n := range tf[v] {
			if n != 0 {
				df[c]++
			}
		}
	}
	for v := range synopses {
		norm := 0.0
		for c := range tf[v] {
			tf[v][c] *= math.Log(float64(1+len(synopses)) / (1 + df[c]))
			norm += tf[v][c] * tf[v][c]
		}
		indices := f.Indices[f.Indptr[v]:f.Indptr[v+1]]
		for i, c := range indices {
			if i > 0 && indices[i-1] >= c {
				t.Errorf("row %d: columns %v do not ascend", v, indices)
			}
			want := tf[v][c] / math.Sqrt(norm)
			if got := float64(f.Data[int(f.Indptr[v])+i]); got == 0 || math.Abs(got-want) > 1e-6 {
				t.Errorf("row %d, column %d: %g, want %g", v, c, got, want)
			}
			tf[v][c] = 0
		}
		for c, left := range tf[v] {
			assert.Equal(t, 0, left, "row %d lacks column %d", v, c)
		}
	}
}

// Two words that cancel out in their column leave no entry, and a word that every description has weighs
// nothing.
func TestDescribeWithoutWeight(t *testing.T) {
	plus, minus := cancelling(t)
	assert.Empty(t, described(t, plus+" "+minus, "").Indices, "%q and %q leave", plus, minus)
	for _, x := range described(t, "word", "word").Data {
		assert.Equal(t, 0, x, "a word of every description weighs")
	}
}

// cancelling finds two words of one column and opposite signs.
func cancelling(t *testing.T) (plus, minus string) {
	t.Helper()
	seen := map[[2]int]string{}
	for a := 'a'; a <= 'z'; a++ {
		for b := 'a'; b <= 'z'; b++ {
			for c := 'a'; c <= 'z'; c++ {
				word := string([]rune{a, b, c})
				column, sign := hashed(word)
				seen[[2]int{int(column), int(sign)}] = word
				if other := seen[[2]int{int(column), int(-sign)}]; other != "" {
					return other, word
				}
			}
		}
	}
	t.Fatal("no two words of three letters cancel out")
	return "", ""
}
