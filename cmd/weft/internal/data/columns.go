package data

import (
	"fmt"
	"io"

	"weft/cmd/weft/internal/ui"
	"weft/graph/columns"
	"weft/train"
)

// TrainedOn has a job bring the features of its graph, called store, into the trained columns: those on which
// weights, a run or a file, were trained. It writes to notes what is new in the graph.
func TrainedOn(job *train.Job, trained columns.ByType, weights, store string, notes io.Writer) error {
	messages, err := job.Like(trained)
	if err != nil {
		return fmt.Errorf("%s: its columns are not those that %s was trained on: %w; give tables that have "+
			"these", store, weights, err)
	}
	for _, note := range messages {
		fmt.Fprintf(notes, "weft: warning: %s: %s\n", ui.Printable(store), ui.Printable(note))
	}
	return nil
}
