package ogb

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/pickle"
	"weft/internal/refusal"
	"weft/internal/torchfile"
)

// readSplits reads the split of the name that is asked for, or the only one, or makes those of the rule. Its
// files lie in a folder of that name, empty: in none of their own.
func (o *Options) readSplits(of string, vertices int, labels *graph.Labels) ([]graph.Split, error) {
	if o.Rule != nil {
		g := &graph.Graph{Labels: *labels}
		err := g.MakeSplits(o.Rule.Spec, o.Rule.Splits, o.Rule.Seed)
		return g.Splits, err
	}
	splits := filepath.Join(o.Folder, "split")
	entries, err := os.ReadDir(splits)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, refusal.Errorf("%w", err)
	}
	var names []string
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(splits, e.Name())); err == nil && info.IsDir() {
			names = append(names, e.Name())
		}
	}
	name, flag := o.Split, refusal.Setting("split")
	switch {
	case len(names) == 0:
		return nil, refusal.Errorf("%s: has no folder of a split; %s, or give a rule, as %s random:60/20/20", splits, fetchAgain, flag)
	case name == "" && len(names) > 1:
		return nil, refusal.Errorf("%s: has the splits %s: choose one with %s", splits, strings.Join(quoted(names), ", "), flag)
	case name == "":
		name = names[0]
	case !slices.Contains(names, name):
		return nil, refusal.Errorf("%s %.60q: there is none of that name, but %s", flag, name, strings.Join(quoted(names), ", "))
	}
	lists, err := openSplit(filepath.Join(splits, name), of)
	if err != nil {
		return nil, err
	}
	defer lists.close()
	var s graph.Split
	var files [3]string
	for part, name := range []string{"train", "valid", "test"} {
		ids, err := lists.read(name, vertices)
		if err != nil {
			return nil, err
		}
		files[part] = lists.name(name)
		*[]*[]int64{&s.Train, &s.Val, &s.Test}[part] = ids
	}
	return []graph.Split{s}, arrays.CheckSplit(&s, labels, files)
}

// idLists are the lists of vertices of a split: text, or a dict in a file of torch.save, which goes before
// text.
type idLists struct {
	folder string          // of text
	file   *torchfile.File // nil: text
	path   string          // of the file
	of     string          // the type whose vertices are read, in a dict of types
}

// openSplit opens the lists in a folder, of the vertices of a type, which is empty where there is one.
func openSplit(folder, of string) (*idLists, error) {
	const saved = "split_dict.pt"
	l := &idLists{folder: filepath.Join(folder, of), path: filepath.Join(folder, saved), of: of}
	if !has(folder, saved) {
		return l, nil
	}
	var err error
	l.file, err = torchfile.Open(l.path)
	return l, err
}

func (l *idLists) close() {
	if l.file != nil {
		l.file.Close()
	}
}

// name is where the list of a part is, in errors.
func (l *idLists) name(part string) string {
	if l.file != nil {
		return fmt.Sprintf("%s: %q", l.path, part)
	}
	return filepath.Join(l.folder, part+textSuffix)
}

// read reads the list of a part: different ids of so many vertices, which it sorts.
func (l *idLists) read(part string, vertices int) ([]int64, error) {
	if l.file == nil {
		return readIDs(l.name(part), vertices)
	}
	ids, err := l.saved(part)
	if err != nil {
		return nil, refusal.Errorf("%s: %w", l.name(part), err)
	}
	parts, err := arrays.Parts(ids, vertices)
	if err != nil {
		return nil, refusal.Errorf("%s: %w", l.name(part), err)
	}
	return parts[0], nil
}

// saved reads the list of a part from the file: a tensor or an array of NumPy.
func (l *idLists) saved(part string) (*npy.Array, error) {
	value := l.file.Value
	for _, key := range []string{part, l.of} {
		if key == "" {
			continue
		}
		dict, ok := value.(*pickle.Dict)
		if !ok {
			return nil, errors.New("there is no dict of lists")
		}
		if value, ok = dict.Get(key); !ok {
			return nil, fmt.Errorf("there is no list of %q", key)
		}
	}
	switch list := value.(type) {
	case *torchfile.Tensor:
		return list.Array()
	case *pickle.Array:
		return list.Numbers()
	}
	return nil, errors.New("is neither a tensor nor an array")
}

// readIDs reads a list of different ids, and sorts it.
func readIDs(path string, vertices int) ([]int64, error) {
	t, err := openTable(path, 1)
	if err != nil {
		return nil, err
	}
	defer t.close()
	var ids []int64
	buffer := make([]int32, blockValues)
	for {
		n, err := t.ids(buffer, vertices)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(ids)+n > vertices {
			return nil, t.located(t.line, fmt.Errorf("more ids than the %d vertices; %s", vertices, fetchAgain))
		}
		if ids, err = memory.Grow(ids, n); err != nil {
			return nil, t.located(t.line, err)
		}
		for _, id := range buffer[:n] {
			ids = append(ids, int64(id))
		}
	}
	parts, err := arrays.Parts(npy.New(ids), vertices)
	if err != nil {
		return nil, refusal.Errorf("%s: %w", path, err)
	}
	return parts[0], nil
}
