package task

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"weft/comm"
	"weft/comm/launch"
	"weft/internal/number"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// The weights of classes in the loss: none, or weights with which all classes together weigh the same. Any
// other word names a file.
const (
	NoClassWeights = "none"
	Balanced       = "balanced"
)

// readClassWeights reads a text file with a weight for each of so many classes, in their order.
func readClassWeights(path string, classes int) (weights []float64, err error) {
	text, err := regular.ReadFile(path)
	if err != nil {
		return nil, refusal.Errorf("--class-weights %w; it is none, balanced, or a file with a weight for "+
			"each class", err)
	}
	for _, field := range bytes.Fields(text) {
		w, err := number.Parse(string(field), 64)
		if err != nil || !(w >= 0) || math.IsInf(w, 0) {
			return nil, refusal.Errorf("--class-weights %s: %.40q is no weight, which is a number from 0",
				path, field)
		}
		weights = append(weights, w)
	}
	if len(weights) != classes || slices.Max(weights) == 0 {
		return nil, refusal.Errorf("--class-weights %s: %d weights, where the graph has %d classes: give "+
			"one for each in their order, not all 0", path, len(weights), classes)
	}
	return weights, nil
}

// weigh sets the weights of the classes in the loss, and makes the sums of weights the totals of the parts.
// All workers call it.
func (c *classes) weigh(asked string) (err error) {
	weights := make([]float64, c.targets.Classes)
	c.targets.Weights = weights
	if asked == Balanced {
		err = c.balance(weights)
	} else {
		c.targets.Weights, err = readClassWeights(asked, len(weights))
		if err = (launch.Ranks{Comm: c.World}).Together(err); err == nil {
			err = c.sameOnAll(asked)
		}
	}
	if err != nil {
		return err
	}
	if err := c.sumTerms(); err != nil {
		return err
	}
	if c.train.total == 0 {
		return &launch.Common{Err: refusal.Errorf("--class-weights %s: the classes of all training %s "+
			"weigh 0, so there is nothing to learn", asked, c.labels.Noun().Many)}
	}
	return nil
}

// balance sets the weight of a class to n/(C·n_c), as "balanced" of scikit-learn. n_c of the n training
// rows have the class, and C classes are among them. A class that no training row has weighs 0.
func (c *classes) balance(weights []float64) error {
	for _, v := range c.train.ids {
		weights[c.labels.Class[v]]++
	}
	err := c.World.SumDoubles(comm.Statistics, weights)
	n, there := 0., 0.
	for _, count := range weights {
		n += count
		if count > 0 {
			there++
		}
	}
	for k, count := range weights {
		if count > 0 {
			weights[k] = n / (there * count)
		}
	}
	return err
}

// sameOnAll refuses weights that workers have read from different files.
func (c *classes) sameOnAll(path string) error {
	return launch.Ranks{Comm: c.World}.Agree(fmt.Sprint(c.targets.Weights), func(int, string, string) error {
		return refusal.Errorf("--class-weights %s: the workers read different weights: all machines need "+
			"the same file", path)
	})
}
