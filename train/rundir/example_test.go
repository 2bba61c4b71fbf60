package rundir_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"time"

	"weft/graph/generate"
	"weft/train"
	"weft/train/predictions"
	"weft/train/rundir"
)

// A run goes to writers, and comes back from readers, without a directory.
func Example() {
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 400, Degree: 10, Features: 8, Classes: 4, Seed: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	var curve []train.Epoch
	job := train.Job{
		Graph: g, Dataset: "communities", Options: train.Defaults(),
		OnEpoch: func(e train.Epoch) { curve = append(curve, e) },
	}
	job.Options.Model, job.Options.Epochs, job.Options.Seed = "gcn", 30, 1
	started := time.Now()
	result, err := job.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	run, logits := rundir.NewRun("mine 1.0", "", started, &job, result), train.RowsOf(result.Logits, 4)
	var record, epochs, array, table bytes.Buffer
	for _, err := range []error{
		rundir.EncodeRun(&record, &run), rundir.EncodeCurve(&epochs, curve),
		rundir.EncodePredictions(&array, logits),
		predictions.Encode(&table, ".csv", logits, predictions.Table{}),
	} {
		if err != nil {
			log.Fatal(err)
		}
	}

	again, err := rundir.DecodeRun(&record)
	if err != nil {
		log.Fatal(err)
	}
	options, err := again.Options()
	if err != nil {
		log.Fatal(err)
	}
	curve, err = rundir.DecodeCurve(&epochs)
	if err != nil {
		log.Fatal(err)
	}
	rows, columns, err := rundir.DecodePredictions(&array)
	if err != nil {
		log.Fatal(err)
	}
	header, _, _ := bytes.Cut(table.Bytes(), []byte("\n"))
	fmt.Println(again.Summary.Dataset, options.Model, options.Epochs, again.Ended)
	fmt.Println(len(curve), "epochs;", len(rows)/columns, "×", columns, "logits;", string(header))
	// Output:
	// communities gcn 30 epochs
	// 30 epochs; 400 × 4 logits; vertex,class,probability
}

// A file that is not whole is told apart from other refusals.
func ExampleDecodeRun_damaged() {
	_, err := rundir.DecodeRun(bytes.NewReader([]byte(`{"format":1,"summary":{"model":"gc`)))
	fmt.Println(train.Refused(err), train.Damaged(err))
	fmt.Println(err)
	// Output:
	// true true
	// damaged: unexpected end of JSON input
}
