package rundir

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"weft/internal/document"
	"weft/internal/npy"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/setting"
	"weft/train/worker"
)

// Readers and writers of the contents of a run directory's files, for programs that keep runs elsewhere.
// nn.EncodeState and nn.DecodeState do the same for weights.

// EncodeRun writes the record of a run, as run.json has it.
func EncodeRun(w io.Writer, run *Run) error { return encodeJSON(w, run) }

// encodeJSON writes an object on one line, by one write.
func encodeJSON(w io.Writer, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// DecodeRun reads what EncodeRun has written, up to the end of r.
func DecodeRun(r io.Reader) (run *Run, err error) {
	text, err := document.ReadFrom(r, maxRun)
	if err != nil {
		return nil, err
	}
	run = new(Run)
	if err := document.JSON(text, runFormat, run); err != nil {
		return nil, err
	}
	return run, nil
}

// Options are the options of the run.
func (r *Run) Options() (setting.Options, error) { return setting.FromTexts(r.Settings) }

// EncodeCurve writes the epochs of a run, as metrics.jsonl has them: a line of JSON for each.
func EncodeCurve(w io.Writer, curve []train.Epoch) error {
	lines := json.NewEncoder(w)
	for _, e := range curve {
		if err := lines.Encode(e); err != nil {
			return err
		}
	}
	return nil
}

// DecodeCurve reads the epochs of a run, up to the end of r. It leaves out a last line that is not ended: the
// run is writing it, or was killed while it did. After an error it returns the epochs before it.
func DecodeCurve(r io.Reader) (curve []train.Epoch, err error) {
	const longest = 1 << 16 // a line has some hundred bytes
	lines := bufio.NewReaderSize(r, longest)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		var e train.Epoch
		switch {
		case errors.Is(err, io.EOF):
			return curve, nil
		case errors.Is(err, bufio.ErrBufferFull):
			err = refusal.Damaged("longer than %d bytes", longest)
		case err == nil:
			if err = json.Unmarshal(line, &e); err != nil {
				err = refusal.Damaged("%w", err)
			}
		}
		if err != nil {
			return curve, fmt.Errorf("line %d: %w", n, err)
		}
		curve = append(curve, e)
	}
}

// EncodePredictions writes rows as a NumPy array of float32, as in predictions.npy. Package predictions
// writes tables with the names of vertices and classes.
func EncodePredictions(w io.Writer, rows worker.Rows) error {
	array, err := npy.NewWriter(w, "<f4", rows.Vertices, rows.Columns)
	if err != nil {
		return err
	}
	for batch := range rows.Each {
		if err := npy.Write(array, batch); err != nil {
			return err
		}
	}
	return array.Close()
}

// DecodePredictions reads, up to the end of r, what EncodePredictions or NumPy has written: a row of columns
// values for each vertex.
func DecodePredictions(r io.Reader) (rows []float32, columns int, err error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, 0, err
	}
	return readPredictions(bytes.NewReader(text), int64(len(text)))
}

// readPredictions reads a NumPy array of so many bytes.
func readPredictions(r io.Reader, size int64) (rows []float32, columns int, err error) {
	a, err := npy.Read(r, size)
	if err != nil {
		return nil, 0, err
	}
	if len(a.Shape) != 2 {
		return nil, 0, refusal.Damaged("has shape %v, where rows of columns were expected", a.Shape)
	}
	if rows, err = a.Float32s(); err != nil {
		return nil, 0, err
	}
	if k := slices.IndexFunc(rows, func(x float32) bool { return x-x != 0 }); k >= 0 {
		return nil, 0, refusal.Damaged("row %d has the value %v, and those of a run are finite", k/a.Shape[1],
			rows[k])
	}
	return rows, a.Shape[1], nil
}
