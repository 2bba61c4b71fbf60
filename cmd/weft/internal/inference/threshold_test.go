package inference

import (
	"testing"

	"weft/cmd/weft/internal/session"
	"weft/internal/assert"
	"weft/train/predictions"
)

// TestNoBestThreshold: the refusal names the class that the threshold would be of.
func TestNoBestThreshold(t *testing.T) {
	d := &predicted{asked: &session.Request{}, numbers: 2}
	d.Columns, d.Classes = predictions.Logits, []string{"churned", "stays"}
	assert.Refused(t, d.decide(bestThreshold), "no validation row is of class stays, the second of the two")
	d.Classes = nil
	assert.Refused(t, d.decide(bestThreshold), "no validation row is of class 1, the second of the two")
}
