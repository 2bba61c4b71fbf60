// Package generate makes synthetic graphs of any size: rmat (the skewed degrees of the Graph500 benchmark),
// sbm (communities that a graph neural network can learn) and uniform. A graph is a pure function of its
// options: neither the number of threads nor the memory given to the generator changes a byte. Every graph
// comes with features, labels and a random 60/20/20 split. The command generate, the synthetic graphs of
// package datasets, and benchmarks call it.
package generate

import (
	"fmt"
	"math"

	"weft/graph"
	"weft/internal/refusal"
)

// Kinds of graphs.
const (
	// RMAT is a directed graph. Each edge chooses quadrants of the adjacency matrix recursively
	// (Chakrabarti, Zhan and Faloutsos, "R-MAT", SDM 2004) with the Graph500 parameters 0.57, 0.19, 0.19,
	// 0.05. Vertices are relabelled at random, so that ids carry no degree order; self loops are drawn
	// again; duplicate edges stay. Labels and normal features are random.
	RMAT = "rmat"
	// SBM is a stochastic block model with equal classes (a planted partition). An edge's target is uniform.
	// Its source is uniform in the target's class with probability Homophily, and in the other classes
	// otherwise. A vertex's features are its class's centre (standard normal) plus twice normal noise.
	SBM = "sbm"
	// Uniform is a graph whose edges have uniform ends, with random labels and normal features.
	Uniform = "uniform"
)

// Options describe a graph. Vertices, Degree and Directed belong to SBM and Uniform, Scale and EdgeFactor to
// RMAT.
type Options struct {
	Kind string
	// Vertices is V, Degree the mean in-degree. A directed graph has round(V·Degree) edges, an undirected one
	// round(V·Degree/2) pairs, each stored both ways. There are no self loops; duplicate edges may occur.
	Vertices int
	Degree   float64
	Directed bool
	// Scale is the logarithm of the number of vertices (2^Scale), EdgeFactor the number of edges for each
	// vertex.
	Scale, EdgeFactor int
	// Features is the number of feature columns, 0 for none. Classes are equally large, give or take one
	// vertex.
	Features, Classes int
	Seed              uint64
	Progress          graph.Progress // of making edges and features
}

// Default returns the options of a kind without any flag.
func Default(kind string) Options {
	o := Options{Kind: kind, Features: 64, Classes: 16}
	if kind == RMAT {
		o.Scale, o.EdgeFactor = 16, 16
	} else {
		o.Vertices, o.Degree = 10_000, 20
	}
	return o
}

// The limits. Ids fit int32. maxEdges and maxDegree keep the in-degree of an R-MAT hub (0.76^scale of all
// edges) within int32, too.
const (
	maxVertices = math.MaxInt32
	maxScale    = 30
	maxDegree   = 1 << 20
	maxEdges    = 1 << 38
	maxColumns  = 1 << 20
)

// both reports whether each edge is stored in both directions.
func (o *Options) both() bool { return o.Kind != RMAT && !o.Directed }

// Validate refuses options that describe no graph, by the name of the setting.
func (o *Options) Validate() error {
	switch o.Kind {
	case RMAT:
		if o.Scale < 1 || o.Scale > maxScale {
			return refusal.Errorf("--scale %d: give between 1 and %d, for 2^scale vertices", o.Scale,
				maxScale)
		}
		if o.EdgeFactor < 0 || o.EdgeFactor > maxDegree {
			return refusal.Errorf("--edge-factor %d: give between 0 and %d edges for each vertex",
				o.EdgeFactor, maxDegree)
		}
		if o.Vertices != 0 || o.Degree != 0 || o.Directed {
			return refusal.Errorf("--vertices, --degree and --directed do not belong to rmat: give --scale " +
				"and --edge-factor")
		}
	case SBM, Uniform:
		if o.Vertices < 1 || o.Vertices > maxVertices {
			return refusal.Errorf("--vertices %d: give between 1 and %d", o.Vertices, maxVertices)
		}
		if !(o.Degree >= 0 && o.Degree <= maxDegree) {
			return refusal.Errorf("--degree %g: give a mean in-degree between 0 and %d", o.Degree,
				maxDegree)
		}
		if o.Scale != 0 || o.EdgeFactor != 0 {
			return refusal.Errorf("--scale and --edge-factor belong to rmat: give --vertices and --degree")
		}
	default:
		return refusal.Errorf("kind of graph %q is unknown: give rmat, sbm or uniform", o.Kind)
	}
	n, e := o.size()
	if e > maxEdges {
		return refusal.Errorf("%s makes %d edges: ask for at most %d", o.edgeSetting(), e, int64(maxEdges))
	}
	if n < 2 && e > 0 {
		return refusal.Errorf("--vertices %d has no edge without self loops: give at least 2, or --degree 0",
			n)
	}
	if o.Features < 0 || o.Features > maxColumns {
		return refusal.Errorf("--features %d: give between 0 and %d columns", o.Features, maxColumns)
	}
	if o.Classes < 1 || o.Classes > n {
		return refusal.Errorf("%s: give between 1 and the number of vertices, %d", o.classes(), n)
	}
	if o.Kind == SBM && e > 0 && n < 2*o.Classes {
		return refusal.Errorf("%s: sbm needs two vertices in each class, hence at most %d classes",
			o.classes(), n/2)
	}
	return nil
}

// classes returns the setting and its value for messages.
func (o *Options) classes() string {
	text := fmt.Sprintf("--classes %d", o.Classes)
	if o.Classes == Default(o.Kind).Classes {
		text += " (the default)"
	}
	return text
}

// size returns the numbers of vertices and stored edges.
func (o *Options) size() (vertices int, edges int64) {
	if o.Kind == RMAT {
		return 1 << o.Scale, int64(o.EdgeFactor) << o.Scale
	}
	if o.Directed {
		return o.Vertices, int64(math.Round(float64(o.Vertices) * o.Degree))
	}
	return o.Vertices, 2 * int64(math.Round(float64(o.Vertices)*o.Degree/2))
}

func (o *Options) edgeSetting() string {
	if o.Kind == RMAT {
		return fmt.Sprintf("--edge-factor %d", o.EdgeFactor)
	}
	return fmt.Sprintf("--degree %g", o.Degree)
}

// command returns the command line that makes the graph, without the name of the store.
func (o *Options) command() string {
	line := "weft generate " + o.Kind
	if o.Kind == RMAT {
		line += fmt.Sprintf(" --scale %d --edge-factor %d", o.Scale, o.EdgeFactor)
	} else {
		line += fmt.Sprintf(" --vertices %d --degree %g", o.Vertices, o.Degree)
	}
	line += fmt.Sprintf(" --features %d --classes %d --seed %d", o.Features, o.Classes, o.Seed)
	if o.Directed {
		line += " --directed"
	}
	return line
}
