// Record trains on a graph made in memory, leaves a run directory, and predicts with the weights in it.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"weft/graph/generate"
	"weft/nn"
	"weft/train"
	"weft/train/rundir"
)

func main() {
	ctx := context.Background()
	started := time.Now()
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 3000, Degree: 20, Features: 16,
		Classes: 4, Seed: 1,
	})
	check(err)
	job := train.Job{Graph: g, Dataset: "communities", Options: train.Defaults()}
	job.Options.Model, job.Options.Epochs = "gcn", 50
	dir, err := rundir.New("runs/mine", started, &job, "mine 1.0", "")
	check(err)
	result, err := dir.Record(ctx, &job, nil, "mine 1.0")
	check(err)
	run := rundir.NewRun("mine 1.0", "", started, &job, result)
	check(dir.Finish(&run))

	_, options, file, err := rundir.Read("runs/mine")
	check(err)
	weights, err := nn.ReadState(file)
	check(err)
	later := train.Job{Graph: g, Options: options}
	p, err := later.Predict(ctx, weights, train.Logits)
	check(err)
	fmt.Printf("test accuracy %.2f at epoch %d; %d × %d logits\n", result.Test, result.BestEpoch,
		p.Vertices, p.Classes)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
