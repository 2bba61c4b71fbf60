package rundir

import (
	"io"
	"maps"
	"path/filepath"
	"slices"

	"weft/graph/columns"
	"weft/internal/atomicfile"
	"weft/internal/npy"
	"weft/internal/refusal"
	"weft/internal/regular"
	"weft/internal/safetensors"
	"weft/nn"
	"weft/train/worker"
)

// The results of a run: weights and predictions of the best epoch.

// Results are the names of the results that are there, also of a run that failed. There are none if the
// directory has gone.
func (d *Dir) Results() []string {
	return slices.DeleteFunc([]string{weightsFile, Predictions}, func(name string) bool {
		_, err := d.root.Lstat(name)
		return err != nil || d.Gone()
	})
}

// Weights writes the weights, with the version of weft that trained them, and the columns of which their
// features are made, by vertex type. It is meant for Job.OnWeights.
func (d *Dir) Weights(version string, byType columns.ByType, weights nn.State) error {
	if d.Gone() { // somebody may be removing the folder
		return d.fail(errGone)
	}
	if len(d.unread) > 0 {
		all := maps.Clone(d.unread)
		maps.Copy(all, weights)
		weights = all
	}
	metadata := map[string]string{"format": "pt", "weft": version}
	if byType != nil {
		text, err := byType.Encode()
		if err != nil {
			return d.fail(err)
		}
		metadata[columnsKey] = string(text)
	}
	return d.fail(atomicfile.WriteIn(d.root, weightsFile, func(w io.Writer) error {
		return safetensors.Write(w, weights, metadata)
	}))
}

// columnsKey is the metadata of weights with the columns, as columns.Decode reads them.
const columnsKey = "weft.columns"

// ColumnsOf reads from a safetensors file of weights the columns of which their features are made, by vertex
// type; nil: it has none. Errors name the file.
func ColumnsOf(weights string) (columns.ByType, error) {
	f, err := safetensors.Open(weights)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, there := f.Metadata[columnsKey]
	if !there {
		return nil, nil
	}
	byType, err := columns.Decode([]byte(text))
	if err != nil {
		return nil, refusal.Errorf("%s: %s: %w", weights, columnsKey, err)
	}
	return byType, nil
}

// Predictions writes the logits. It is meant for Job.OnLogits.
func (d *Dir) Predictions(logits worker.Rows) error {
	return d.fail(atomicfile.WriteIn(d.root, Predictions, func(to io.Writer) error {
		return EncodePredictions(to, logits)
	}))
}

// WriteVertices writes ids as a NumPy array of int64. The file appears under its name when it is complete and
// on disk.
func WriteVertices(path string, ids []int32) error {
	return atomicfile.Write(path, func(to io.Writer) error {
		w, err := npy.NewWriter(to, "<i8", len(ids))
		if err != nil {
			return err
		}
		var long []int64
		for part := range slices.Chunk(ids, 1<<14) {
			long = long[:0]
			for _, v := range part {
				long = append(long, int64(v))
			}
			if err := npy.Write(w, long); err != nil {
				return err
			}
		}
		return w.Close()
	})
}

// ReadPredictions reads the predictions of a complete run: a row of columns values for each vertex.
func ReadPredictions(dir string) (rows []float32, columns int, err error) {
	path := filepath.Join(dir, Predictions)
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, 0, refusal.Errorf("%w", err)
	}
	defer f.Close()
	if rows, columns, err = readPredictions(f, size); err != nil {
		return nil, 0, refusal.Errorf("%s: %w", path, err)
	}
	return rows, columns, nil
}
