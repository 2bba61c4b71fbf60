package ogb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/internal/lines"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// labelsOf reads the labels of so many vertices: one column of classes, or a 0/1 matrix with a column for
// each task.
func labelsOf(m matrix, vertices int) (graph.Labels, error) {
	all := &whole{matrix: m, want: int64(vertices)}
	if m.width() > 1 {
		return tasks(all)
	}
	return classes(all)
}

// classes reads one class per vertex.
func classes(m *whole) (graph.Labels, error) {
	var ids []int64
	err := m.each(func(rows []float32) (err error) {
		if ids, err = memory.GrowTo(ids, len(rows), m.want); err != nil {
			return refusal.In(m.where(m.at), err)
		}
		for k, x := range rows {
			id := int64(-1)
			if x == x {
				var whole bool
				id, whole = arrays.Whole(x)
				if !whole || id < 0 {
					return refusal.Errorf("%s: the label %v is no class, which are 0, 1, 2, … (none: empty "+
						"or NaN); %s", m.where(m.at-int64(len(rows)-k)), x, fetchAgain)
				}
			}
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		return graph.Labels{}, err
	}
	labels, err := arrays.Classes(ids, len(ids), graph.VertexNoun)
	return labels, refusal.In(m.where(0), err)
}

// tasks reads several labels per vertex. Each label may be missing.
func tasks(m *whole) (graph.Labels, error) {
	var values []float32
	err := m.each(func(rows []float32) (err error) {
		if values, err = memory.AppendTo(values, rows, m.want*int64(m.width())); err != nil {
			return refusal.In(m.where(m.at), err)
		}
		return nil
	})
	if err != nil {
		return graph.Labels{}, err
	}
	columns := m.width()
	if k := arrays.NoLabel(values); k >= 0 {
		return graph.Labels{}, refusal.Errorf("%s: the label of task %d is %v: labels of several tasks are "+
			"0 and 1, or missing", m.where(int64(k/columns)), k%columns, values[k])
	}
	return graph.Labels{Classes: columns, Multi: values}, nil
}

// readSplits reads the named split, or the only one, or makes the splits of the rule. Its files lie in a
// folder of the vertex type, and directly in the split's folder if the type has no name.
func (o *Options) readSplits(vertexType string, vertices int, labels *graph.Labels) ([]graph.Split, error) {
	if o.Rule != nil {
		f := graph.Frame{Labels: *labels}
		err := f.MakeSplits(o.Rule.Spec, o.Rule.Splits, o.Rule.Seed)
		return f.Splits, err
	}
	path, err := o.splitFolder()
	if err != nil {
		return nil, err
	}
	if has(path, pickledSplit) {
		s, err := readPickled(filepath.Join(path, pickledSplit), vertexType, vertices, labels)
		return []graph.Split{s}, err
	}
	s, err := readSplit(filepath.Join(path, vertexType), vertices, labels)
	return []graph.Split{s}, err
}

// readEdgeSplit reads the named split of edges, or the only one; nil: it is a split of vertices.
func (o *Options) readEdgeSplit(vertices int) (*graph.EdgeSplit, error) {
	if o.Rule != nil {
		return nil, nil
	}
	path, err := o.splitFolder()
	if err != nil || !isLinkSplit(path) {
		return nil, err
	}
	return readLinkSplit(path, vertices)
}

// splitFolder returns the folder of the split.
func (o *Options) splitFolder() (string, error) {
	splits := filepath.Join(o.Folder, "split")
	entries, err := os.ReadDir(splits)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", refusal.Errorf("%w", err)
	}
	var names []string
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(splits, e.Name())); err == nil && info.IsDir() {
			names = append(names, e.Name())
		}
	}
	name := o.Split
	switch {
	case len(names) == 0:
		return "", refusal.Errorf("%s: has no folder of a split; %s, or give a rule, as --split "+
			"random:60/20/20", splits, fetchAgain)
	case name == "" && len(names) > 1:
		return "", refusal.Errorf("%s: has the splits %s: choose one with --split", splits,
			arrays.Listed(names))
	case name == "":
		name = names[0]
	case !slices.Contains(names, name):
		return "", refusal.Errorf("--split %.60q: there is none of that name, but %s", name,
			arrays.Listed(names))
	}
	return filepath.Join(splits, name), nil
}

// readSplit reads the three lists of ids of a split.
func readSplit(path string, vertices int, labels *graph.Labels) (s graph.Split, err error) {
	var files [3]string
	for part, name := range []string{"train", "valid", "test"} {
		files[part] = filepath.Join(path, name+textSuffix)
		ids, err := readIDs(files[part], vertices)
		if err != nil {
			return s, err
		}
		*s.Parts()[part] = ids
	}
	return s, arrays.CheckSplit(&s, labels, files)
}

// readIDs reads a list of different ids, and sorts it.
func readIDs(path string, vertices int) ([]int64, error) {
	var ids []int64
	var id [1]int32
	err := lines.Each(form(path), func(line []byte, _ int64) (err error) {
		if err := parseIDs(id[:], line, []int{vertices}); err != nil {
			return err
		}
		if len(ids) == vertices {
			return fmt.Errorf("more ids than the %d vertices", vertices)
		}
		ids, err = memory.Append(ids, int64(id[0]))
		return err
	})
	if err != nil {
		return nil, refusal.Advise(err, fetchAgain)
	}
	parts, err := arrays.Parts(npy.New(ids), vertices)
	if err != nil {
		return nil, refusal.In(path, err)
	}
	return parts[0], nil
}
