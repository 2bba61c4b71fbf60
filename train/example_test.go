package train_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"weft/autograd"
	"weft/graph/generate"
	"weft/nn"
	"weft/train"
)

// A model is trained on a graph made in memory, and its weights go through a file's bytes to a prediction.
func Example() {
	ctx := context.Background()
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 400, Degree: 10, Features: 8, Classes: 4, Seed: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	job := train.Job{Graph: g, Options: train.Defaults()}
	job.Options.Model, job.Options.Epochs, job.Options.Seed = "gcn", 30, 1
	job.OnEpoch = func(e train.Epoch) {
		if e.Epoch == 30 {
			fmt.Printf("epoch %d: the loss is below 1: %v\n", e.Epoch, e.Loss < 1)
		}
	}
	result, err := job.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer
	if err := nn.EncodeState(&file, result.Weights); err != nil {
		log.Fatal(err)
	}
	weights, err := nn.DecodeState(&file)
	if err != nil {
		log.Fatal(err)
	}
	p, err := job.Predict(ctx, weights, train.Logits)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d × %d logits\n", p.Vertices, p.Classes)
	// Output:
	// epoch 30: the loss is below 1: true
	// 400 × 4 logits
}

// Errors tell a request that makes no sense from a run that failed.
func ExampleRefused() {
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 400, Degree: 10, Features: 8, Classes: 4, Seed: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = (&train.Job{Graph: g}).Run(context.Background()) // without options
	fmt.Println(train.Refused(err), err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = (&train.Job{Graph: g, Options: train.Defaults()}).Run(ctx)
	fmt.Println(train.Refused(err), train.Interrupted(err))
	// Output:
	// true the options are all zero: begin with those of Defaults, and change what you want
	// false true
}

// A loss of one's own is operations on a tape, over the labelled vertices of a worker. Here a vertex weighs
// as much as its number says, and a confident prediction costs more.
func ExampleJob_loss() {
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 400, Degree: 10, Features: 8, Classes: 4, Seed: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	job := train.Job{Graph: g, Options: train.Defaults()}
	job.Options.Model, job.Options.Epochs, job.Options.Seed = "gcn", 30, 1
	job.Loss = func(logits *autograd.Var, labels nn.Labels) *autograd.Var {
		weights := autograd.Filled(logits, 1, func(weights []float32) {
			for row, vertex := range labels.Vertices {
				weights[row] = 1 + float32(vertex%2)
			}
		})
		logs := nn.LogSoftmax(logits)
		entropy := autograd.Multiply(autograd.Exp(logs), logs)
		terms := autograd.Combine(-1, autograd.Multiply(logs, nn.OneHot(logits, labels.Targets)), .1, entropy)
		return autograd.HeadScale(terms, weights)
	}
	for _, mesh := range []string{"graph=1", "graph=2", "tensor=2"} {
		job.Options.Parallel = mesh
		result, err := job.Run(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: loss %.3f after %d epochs\n", mesh, result.Losses[29], result.Epochs)
	}
	// Output:
	// graph=1: loss 1.138 after 30 epochs
	// graph=2: loss 1.138 after 30 epochs
	// tensor=2: loss 1.138 after 30 epochs
}
