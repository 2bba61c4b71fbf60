package ogb

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
	"weft/internal/require"
)

// Folders of which something is missing, or wrong.

// spoil damages a folder.
type spoil func(t *testing.T, folder string)

// remove removes a file or folder.
func remove(file string) spoil {
	return func(t *testing.T, folder string) {
		require.NoError(t, os.RemoveAll(filepath.Join(folder, file)))
	}
}

// textOf puts another text into a file.
func textOf(file, content string) spoil {
	return func(t *testing.T, folder string) { gzipped(t, filepath.Join(folder, file+textSuffix), content) }
}

// arraysOf puts other arrays into an archive.
func arraysOf(file string, entries ...entry) spoil {
	return func(t *testing.T, folder string) {
		write(t, filepath.Join(folder, file), archive(t, zip.Store, entries...))
	}
}

// file puts a file without content there.
func file(name string) spoil {
	return func(t *testing.T, folder string) { write(t, filepath.Join(folder, name), nil) }
}

// all does one after another.
func all(spoils ...spoil) spoil {
	return func(t *testing.T, folder string) {
		for _, s := range spoils {
			s(t, folder)
		}
	}
}

// damage is what is wrong with a folder, and what is said of it.
type damage struct {
	spoil spoil
	want  string
}

// refuseAll fails unless folders are refused for each of the damages.
func refuseAll(t *testing.T, folder func(t testing.TB) string, damages []damage) {
	t.Helper()
	for _, c := range damages {
		t.Run(c.want, func(t *testing.T) {
			f := folder(t)
			c.spoil(t, f)
			refuse(t, Options{Folder: f}, c.want)
		})
	}
}

// refuse fails unless a folder is refused.
func refuse(t *testing.T, o Options, want string) {
	t.Helper()
	streamedtest.WantRefused(t, func() (*streamed.Graph, error) { return Open(o) }, "", want)
}

func TestDamagedFoldersAreRefused(t *testing.T) {
	bytesOf := func(file string, change func([]byte) []byte) spoil {
		return func(t *testing.T, folder string) {
			data, err := os.ReadFile(filepath.Join(folder, file))
			require.NoError(t, err)
			write(t, filepath.Join(folder, file), change(data))
		}
	}
	half := func(b []byte) []byte { return b[:len(b)/2] }
	arrays := func(entries ...entry) spoil { return arraysOf("raw/data.npz", entries...) }
	sizes := []entry{
		{"num_nodes_list", []int64{10}, []int{1}, false},
		{"num_edges_list", []int64{3}, []int{1}, false},
	}
	edges := func(ids any, rows, columns int, more ...entry) []entry {
		return slices.Concat(sizes, []entry{{edgeIndex, ids, []int{rows, columns}, false}}, more)
	}
	nans := slices.Repeat([]float32{nan}, 10)
	y := newToy(10, 3)
	y.features = y.features[:30]
	text := func(t testing.TB) string { return y.text(t, "ogbn_arxiv") }
	binary := func(t testing.TB) string { return y.binary(t, "ogbn_arxiv", zip.Store) }
	refuseAll(t, text, []damage{
		{remove("."), "no such folder; give a folder that OGB's downloader left"},
		{remove("raw"), "raw: has neither edge.csv.gz nor data.npz, nor triplet-type-list.csv.gz"},
		{remove("raw/edge.csv.gz"), "edge.csv.gz: no such file or directory; fetch the folder again"},
		{remove("raw/num-node-list.csv.gz"), "num-node-list.csv.gz: no such file"},
		{remove("raw/num-edge-list.csv.gz"), "num-edge-list.csv.gz: no such file"},
		{remove("raw/node-label.csv.gz"), "node-label.csv.gz: no such file"},
		{remove("split"), "has no folder of a split"},
		{remove("split/time/test.csv.gz"), "test.csv.gz: no such file"},
		{textOf("raw/num-node-list", "5\n5\n"), "holds 2 graphs"},
		{textOf("raw/num-node-list", "ten\n"), `"ten" is no count`},
		{textOf("raw/num-node-list", "0\n"), "announces 0 vertices"},
		{textOf("raw/num-node-list", "2147483648\n"), "announces 2147483648 vertices"},
		{textOf("raw/num-edge-list", "-1\n"), "-1 edges, where"},
		{textOf("raw/num-node-list", "11\n"), "node-label.csv.gz:10: the last row, where 11 are announced"},
		{textOf("raw/num-node-list", "9\n"), "more rows than the 9 announced"},
		{textOf("raw/num-edge-list", "2\n"), "edge.csv.gz: more edges than the 2 announced"},
		{
			textOf("raw/num-edge-list", "1000000000000\n"),
			"edge.csv.gz: 3 edges, where 1000000000000 are announced",
		},
		{textOf("raw/edge-feat", "1,2\n1,2\n"), "edge-feat.csv.gz:2: the last row, where 3"},
		{textOf("raw/edge-feat", "1,2\n1,2\n1,2\n1,2\n"), "edge-feat.csv.gz:4: more rows than the 3"},
		{textOf("raw/node-feat", "1\n2\n"), "node-feat.csv.gz:2: the last row, where 10"},
		{textOf("raw/node-feat", "1,2\n2\n"), "node-feat.csv.gz:2: 1 columns, where the lines before have 2"},
		{textOf("raw/node-feat", "1,2\n2,\n"), "node-feat.csv.gz:2: column 1 is NaN"},
		{textOf("raw/node-feat", "x,y\n2,3\n"), `node-feat.csv.gz:1: "x" is not a number`},
		{textOf("raw/edge", "0,1\n1,10\n2,3\n"), "edge.csv.gz:2: 10 is out of the range of 10"},
		{textOf("raw/edge", "0,1\n-1,1\n"), `edge.csv.gz:2: "-1" is not an id`},
		{textOf("raw/edge", "0,1\n1,18446744073709551616\n"), `"18446744073709551616" is not an id`},
		{textOf("raw/edge", "0,1,2\n"), "edge.csv.gz:1: 3 columns, where there are 2"},
		{
			textOf("raw/node-label", strings.Repeat("1.5\n", 10)),
			"node-label.csv.gz:1: the label 1.5 is no class",
		},
		{textOf("raw/node-label", strings.Repeat("10\n", 10)), "label 10 of vertex 0: classes run from 0"},
		{textOf("raw/node-label", strings.Repeat("0,2\n", 10)), "the label of task 1 is 2"},
		{textOf("split/time/valid", "10\n"), "valid.csv.gz:1: 10 is out of the range of 10"},
		{textOf("split/time/valid", "1\n1\n"), "vertex 1 is given twice"},
		{textOf("split/time/valid", "0\n"), "vertex 0 is also in"},
		{textOf("split/time/valid", "3\n"), "vertex 3 has no label"},
		{textOf("split/time/valid", strings.Repeat("1\n", 100)), "more ids than the 10 vertices"},
		{
			file("split/time/split_dict.pt"),
			"split_dict.pt: zip: not a valid zip file; give a file of torch.save",
		},
		{
			bytesOf("raw/edge.csv.gz", func(b []byte) []byte {
				return append(b, "xxxxxxxxxxxxxxxxxxxxxxxx"...)
			}),
			"the file is damaged or cut short; fetch the folder again",
		},
		{
			bytesOf("raw/edge.csv.gz", func([]byte) []byte { return []byte("0,1\n1,2\n2,3\n") }),
			"edge.csv.gz: a damaged gzip file: gzip: invalid header; fetch the folder again",
		},
		{bytesOf("raw/edge.csv.gz", half), "the file is damaged or cut short; fetch the folder again"},
		{
			func(t *testing.T, folder string) {
				remove("raw/edge.csv.gz")(t, folder)
				require.NoError(t, os.Mkdir(filepath.Join(folder, "raw/edge.csv.gz"), 0o755))
			},
			"is a directory, not a file",
		},
		{
			textOf("raw/node_year", "old\n"),
			`node_year.csv.gz:1: "old" is not a number (node_year may be left out of the folder)`,
		},
		{textOf("raw/node_year", "1\n"), "node_year.csv.gz:1: the last row, where 10"},
	})
	refuseAll(t, binary, []damage{
		{bytesOf("raw/data.npz", half), "data.npz: the .npz file is damaged"},
		{bytesOf("raw/node-label.npz", half), "node-label.npz: the .npz file is damaged"},
		{bytesOf("raw/data.npz", func(b []byte) []byte {
			b[bytes.Index(b, []byte("node_feat.npy"))+200] ^= 1
			return b
		}), "checksum"},
		{remove("raw/node-label.npz"), "node-label.npz: no such file"},
		{arrays(sizes...), `has no array "edge_index"`},
		{arrays(edges(make([]int64, 6), 3, 2)...), "has shape [3 2]: it must be 2 × E"},
		{arrays(edges([]int64{0, 1, 2, 3, 10, 4}, 2, 3)...), "element 4, 10, is out of the range of 10"},
		{arrays(edges([]int64{0, 1, 2, 3}, 2, 2)...), "2 edges, where 3 are announced"},
		{
			arrays(edges(make([]float32, 6), 2, 3)...),
			`array "edge_index": dtype "<f4" is not an integer`,
		},
		{
			arrays(edges(make([]int64, 6), 2, 3,
				entry{"node_feat", make([]float32, 8), []int{2, 2, 2}, false})...),
			"has shape [2 2 2], where a matrix is expected",
		},
		{
			arrays(edges(make([]int64, 6), 2, 3, entry{"node_feat", nans, []int{10, 1}, false})...),
			`array "node_feat": row 0: column 0 is NaN`,
		},
	})
	whole := text(t)
	refuse(t, Options{Folder: whole, FromEdges: Mean},
		"has features of its vertices; leave --features-from-edges out")
	refuse(t, Options{Folder: whole, FromEdges: "max"}, `features-from-edges "max": give mean or sum`)
	remove("raw/edge-feat.csv.gz")(t, whole)
	refuse(t, Options{Folder: whole, FromEdges: Sum}, "has features of its vertices")
}
