package ogb

import (
	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/pickle"
	"weft/internal/refusal"
	"weft/internal/torchfile"
)

// pickledSplit is the file of torch.save that is in the folder of a split in place of the lists of ids.
const pickledSplit = "split_dict.pt"

// readPickled reads the split in such a file: a dict of ids, with train, valid and test. In a folder with
// types each of these is a dict by type, from which it takes one.
func readPickled(path, vertexType string, vertices int, labels *graph.Labels) (s graph.Split, err error) {
	f, err := torchfile.Open(path)
	if err != nil {
		return s, err
	}
	defer f.Close()
	names := [3]string{"train", "valid", "test"}
	for part, name := range names {
		value := under(f.Value, name)
		if vertexType != "" {
			value = under(value, vertexType)
			name += " of " + vertexType
		}
		ids, ok := value.(torchfile.Dense)
		if !ok {
			return s, refusal.Errorf("%s: has no ids that are called %.40q; %s", path, name, fetchAgain)
		}
		array, err := torchfile.Array(ids)
		var parts [][]int64
		if err == nil {
			parts, err = arrays.Parts(array, vertices)
		}
		if err == nil && len(parts) != 1 {
			err = refusal.Errorf("has %d columns: give a list of ids", len(parts))
		}
		if err != nil {
			return s, refusal.Errorf("%s: %.40q: %w", path, name, err)
		}
		*s.Parts()[part] = parts[0]
	}
	return s, refusal.In(path, arrays.CheckSplit(&s, labels, names))
}

// under returns the value of a dict under that name; nil: there is none.
func under(value any, name string) any {
	d, ok := value.(*pickle.Dict)
	if !ok {
		return nil
	}
	value, _ = d.Get(name)
	return value
}
