package ogb

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weft/internal/refusal"
)

// textFolder is the layout of gzip text, a file for each array.
type textFolder struct{ raw string }

const textSuffix = ".csv.gz"

func (f textFolder) name() string { return f.raw }

func (f textFolder) path(name string) string { return filepath.Join(f.raw, name+textSuffix) }

func (f textFolder) close() {}

func (f textFolder) count(of string) ([]int64, error) {
	path := f.path("num-" + of + "-list")
	lines, err := readLines(path)
	if err != nil {
		return nil, err
	}
	var list []int64
	for _, fields := range lines {
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil || len(fields) > 1 {
			return nil, refusal.Errorf("%s: %.40q is no count; %s", path, strings.Join(fields, ","), fetchAgain)
		}
		list = append(list, n)
	}
	return list, nil
}

// entries names what a folder holds, but for hidden files.
func entries(folder string) (names []string) {
	all, _ := os.ReadDir(folder) // what cannot be listed cannot be opened either
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// has reports whether a folder has a file of that name.
func has(folder, name string) bool {
	_, err := os.Lstat(filepath.Join(folder, name))
	return !errors.Is(err, fs.ErrNotExist)
}

func (f textFolder) matrix(name string) (matrix, error) {
	if !has(f.raw, name+textSuffix) {
		return nil, nil
	}
	return f.open(name)
}

func (f textFolder) labels() (matrix, error) { return f.open("node-label") }

func (f textFolder) open(name string) (matrix, error) {
	t, err := openText(f.path(name), 0)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (f textFolder) edges(within ends) (edges, error) {
	t, err := openText(f.path("edge"), 2)
	if err != nil {
		return nil, err
	}
	return &textEdges{text: t, within: within}, nil
}

// more lists files such as node_year.csv.gz, and species.csv.gz of proteins.
func (f textFolder) more() []string {
	var names []string
	known := []string{"edge", "node-label", nodeFeatures, edgeFeatures, "num-node-list", "num-edge-list"}
	for _, file := range entries(f.raw) {
		if name, ok := strings.CutSuffix(file, textSuffix); ok && !slices.Contains(known, name) {
			names = append(names, name)
		}
	}
	return names
}

func (f textFolder) unknown() []string {
	return slices.DeleteFunc(entries(f.raw), func(name string) bool { return strings.HasSuffix(name, textSuffix) })
}

// textEdges reads lines of a source and a target.
type textEdges struct {
	*text
	within ends
	ends   []int32 // of the last edges, as they lie in the file
	last   pairs
}

func (e *textEdges) name() string { return e.path }

func (e *textEdges) next() (pairs, error) {
	if e.ends == nil {
		e.ends = make([]int32, blockValues)
		e.last = pairs{make([]int32, blockValues/2), make([]int32, blockValues/2)}
	}
	n, err := e.ids(e.ends, e.within.source, e.within.target)
	if err != nil {
		return pairs{}, err
	}
	for k := range n / 2 {
		e.last.source[k], e.last.target[k] = e.ends[2*k], e.ends[2*k+1]
	}
	return pairs{e.last.source[:n/2], e.last.target[:n/2]}, nil
}
