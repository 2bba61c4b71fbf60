package data

import (
	"fmt"
	"io"

	"weft/cmd/weft/internal/ui"
	"weft/graph/columns"
	"weft/train"
)

// TrainedOn has a job bring the features of its graph, called store, into the columns on which the weights of
// a run, or a file of weights, were trained. It says what is new in the graph.
func TrainedOn(job *train.Job, of columns.ByType, weights, store string, notes io.Writer) error {
	said, err := job.Like(of)
	if err != nil {
		return fmt.Errorf("%s: its columns are not those that %s was trained on: %w; give tables that have "+
			"these", store, weights, err)
	}
	for _, note := range said {
		fmt.Fprintf(notes, "weft: warning: %s: %s\n", ui.Printable(store), ui.Printable(note))
	}
	return nil
}
