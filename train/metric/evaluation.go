package metric

import (
	"encoding/json"
	"math"

	"weft/comm"
	"weft/graph"
	"weft/internal/refusal"
	"weft/partition"
)

// Evaluation is how good predictions are for some vertices.
type Evaluation struct {
	// Scores are all metrics that the labels allow, by name.
	Scores map[string]float64
	// Classes are the scores of each class, nil for values.
	Classes []ClassScores
	// Confusion counts the vertices of each true class (row) by the predicted class (column), nil where a
	// vertex may have several labels, and for values.
	Confusion [][]int
}

// ClassScores are those of a class: with TP vertices that have it and are predicted to, FP others that are
// predicted to, and FN others that have it, precision TP/(TP+FP), recall TP/(TP+FN) and
// F1 2·TP/(2·TP+FP+FN), 0 where the divisor is.
type ClassScores struct {
	Name      string  `json:"name"`
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	F1        float64 `json:"f1"`
	Support   int     `json:"support"` // TP + FN
}

// MarshalJSON implements json.Marshaler: one object with the scores by name beside confusion and classes.
func (e Evaluation) MarshalJSON() ([]byte, error) {
	object := map[string]any{}
	for name, x := range e.Scores {
		object[name] = Number(x)
	}
	if e.Classes != nil {
		object["classes"] = e.Classes
	}
	if e.Confusion != nil {
		object["confusion"] = e.Confusion
	}
	return json.Marshal(object)
}

// Evaluate measures predictions of all vertices (rows × columns) on some of these. It refuses logits of these
// that are no finite numbers.
func Evaluate(predictions []float32, l *graph.Labels, vertices []int64) (e Evaluation, err error) {
	alone := comm.Alone()
	if l.Continuous() {
		e.Scores, err = OfValues(predictions, l, vertices, alone)
		return e, err
	}
	for _, v := range vertices {
		for _, z := range predictions[int(v)*l.Classes : (int(v)+1)*l.Classes] {
			if x := float64(z); math.IsNaN(x) || math.IsInf(x, 0) {
				return e, refusal.Damaged("the logits of vertex %d are no finite numbers; train again, or "+
					"predict with other weights", v)
			}
		}
	}
	e.Scores = map[string]float64{}
	for name, of := range ofVertices {
		if _, err := Choose(name, &partition.Whole{}, l); err != nil { // not defined on these labels
			continue
		}
		if e.Scores[name], err = of(predictions, l, vertices, alone); err != nil {
			return e, err
		}
	}
	hit, said, is, err := countClasses(predictions, l, vertices, alone)
	if err != nil {
		return e, err
	}
	if hit == nil { // no vertices
		hit, said, is = make([]float64, l.Classes), make([]float64, l.Classes), make([]float64, l.Classes)
	}
	e.Classes = make([]ClassScores, l.Classes)
	for k := range e.Classes {
		e.Classes[k] = ClassScores{
			Name: l.ClassName(k), Precision: hit[k] / max(1, said[k]), Recall: hit[k] / max(1, is[k]),
			F1: f1Of(hit[k], said[k], is[k]), Support: int(is[k]),
		}
	}
	if l.MultiLabel() {
		return e, nil
	}
	e.Confusion = make([][]int, l.Classes)
	for k := range e.Confusion {
		e.Confusion[k] = make([]int, l.Classes)
	}
	for _, v := range vertices {
		e.Confusion[l.Class[v]][argmax(predictions[int(v)*l.Classes:(int(v)+1)*l.Classes])]++
	}
	e.Scores[CalibrationError] = calibrationError(predictions, l, vertices)
	return e, nil
}

// CalibrationError is the expected calibration error with 15 bins (Guo et al. 2017, equation 3): the mean
// difference between how sure the predictions of a bin are, by softmax, and how many of them are right.
const CalibrationError = "calibration-error"

func calibrationError(logits []float32, l *graph.Labels, vertices []int64) (sum float64) {
	const bins = 15
	var sure, right [bins]float64
	for _, v := range vertices {
		row := logits[int(v)*l.Classes : (int(v)+1)*l.Classes]
		top := argmax(row)
		all := 0.
		for _, z := range row {
			all += math.Exp(float64(z) - float64(row[top]))
		}
		bin := min(int(bins/all), bins-1)
		sure[bin] += 1 / all
		if int64(top) == l.Class[v] {
			right[bin]++
		}
	}
	for bin := range bins {
		sum += math.Abs(sure[bin] - right[bin])
	}
	return sum / float64(len(vertices))
}
