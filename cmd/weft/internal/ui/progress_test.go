package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"weft/internal/assert"
	"weft/train"
	"weft/train/metric"
)

func TestOneLine(t *testing.T) {
	assert.Equal(t, "weft: a; b; c", OneLine(errors.New("a\nb\r\n\nc\n")))
	assert.Equal(t, `weft: caf\xe9.csv: is no store`, OneLine(errors.New("caf\xe9.csv: is no store")))
	long := OneLine(errors.New("c.yaml: " + strings.Repeat("ä", 100_000) + ": no such setting"))
	ends := strings.HasPrefix(long, "weft: c.yaml: ä") && strings.HasSuffix(long, "ä: no such setting")
	if len(long) > 3100 || !ends {
		t.Errorf("%d bytes: %.40s", len(long), long)
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"é 图😀\\": "é 图😀\\", "\x1b[2J\n\t\r\x00\x7f": `\x1b[2J\n\t\r\x00\x7f`,
		"\u009b \u00a0\u202e\u200b\u2028": `\u009b \u00a0\u202e\u200b\u2028`,
		"\U000e0041":                      `\U000e0041`, "a\xff\xe2\x80": `a\xff\xe2\x80`,
		"\ufffd": "\ufffd", "'\"": "'\"",
	} {
		assert.Equal(t, want, Printable(text), "%q", text)
		text = strings.ToValidUTF8(text, "")
		var again string
		written, err := json.Marshal(text)
		if err == nil {
			written = printableJSON(written)
			err = json.Unmarshal(written, &again)
		}
		if err != nil || again != text || Printable(string(written)) != string(written) {
			t.Errorf("%q: %q as JSON, %v", text, written, err)
		}
	}
}

// The live line is written over; it never exceeds the terminal.
func TestProgressOnATerminal(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := &Progress{
		LiveLine: LiveLine{Out: &out, Width: func() int { return 40 }},
		Clock:    func() time.Time { return now },
	}
	for e := 1; e <= 1000; e++ {
		now = now.Add(time.Millisecond)
		p.Epoch(train.Epoch{Epoch: e, Epochs: 1000, Loss: 1, Evaluated: true, Seconds: 0.001, PeakBytes: 5e6})
	}
	p.End()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\r\x1b[K"), "\r")[1:]
	if len(lines) < 10 || len(lines) > 12 {
		t.Errorf("%d updates in a second", len(lines))
	}
	for _, line := range lines {
		if text := strings.TrimSuffix(line, "\x1b[K"); len(text) > 39 {
			t.Errorf("%d characters: %q", len(text), text)
		}
	}
	if strings.Contains(out.String(), "\n") {
		t.Error("the live line scrolls")
	}
	ended := out.Len()
	p.Epoch(train.Epoch{Epoch: 1000, Epochs: 1000})
	assert.Equal(t, ended, out.Len(), "after the end: %q", out.String()[ended:])
}

// A narrow terminal shows fewer fields, each of them whole and in its place; the epoch goes last.
func TestProgressFits(t *testing.T) {
	p := &Progress{}
	e := train.Epoch{
		Metric: "accuracy", Epoch: 49, Epochs: 100, Loss: 0.3726,
		Scores: metric.Scores{Train: 1, Val: 0.8198, Test: 0.818}, Evaluated: true,
		Seconds: 0.002, PeakBytes: 207e6,
	}
	p.results, p.recent = e, []float64{0.002, 7, 0.001}
	now := time.Unix(100, 0)
	p.first = now.Add(-48 * time.Second)
	for width, want := range map[int]string{
		3:  "",
		10: "49/100",
		20: "epoch  49/100",
		40: "epoch  49/100  loss 0.3726",
		60: "epoch  49/100  loss 0.3726  val  81.98 %  51 s left",
		80: "epoch  49/100  loss 0.3726  val  81.98 %  2.0 ms/epoch  51 s left",
		100: "epoch  49/100  loss 0.3726  train 100.00 %  val  81.98 %  test  81.80 %  2.0 " +
			"ms/epoch  51 s left",
		120: "epoch  49/100  loss 0.3726  train 100.00 %  val  81.98 %  test  81.80 %  2.0 ms/epoch  207 " +
			"MB  51 s left",
	} {
		assert.Equal(t, want, fit(p.fields(e, now), width-1), "%d columns", width)
	}
	p.results.Metric, p.results.Train = "mrr", math.NaN()
	assert.Equal(t, "epoch  49/100  loss 0.3726  val mrr  81.98 %  2.0 ms/epoch  51 s left",
		fit(p.fields(e, now), 79), "link prediction")
	p.results.Metric = "accuracy"
	p.recent, p.results.Train = []float64{0.0021}, 0.9
	other := fit(p.fields(e, now), 119)
	assert.Len(t, other, len(
		fit(p.fields(train.Epoch{Epoch: 50, Epochs: 100, Seconds: 0.25, PeakBytes: 1.2e9}, now), 119)),
		"columns shift")
}

// Elsewhere lines are plain and few, whatever the number and length of the epochs; the first and the last are
// among them.
func TestProgressInAFile(t *testing.T) {
	for _, c := range []struct {
		epochs    int
		each      time.Duration
		low, high int
	}{
		{1, time.Second, 1, 1},
		{5, time.Millisecond, 5, 5},
		{200, time.Millisecond, 10, 12},
		{100_000, 5 * time.Millisecond, 50, 120},
		{20, time.Minute, 20, 20},
	} {
		var out bytes.Buffer
		now := time.Unix(0, 0)
		p := &Progress{LiveLine: LiveLine{Out: &out}, Clock: func() time.Time { return now }}
		for e := 1; e <= c.epochs; e++ {
			now = now.Add(c.each)
			p.Epoch(train.Epoch{Epoch: e, Epochs: c.epochs, Seconds: c.each.Seconds()})
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) < c.low || len(lines) > c.high {
			t.Errorf("%d epochs of %v: %d lines, want %d to %d", c.epochs, c.each, len(lines), c.low, c.high)
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, fmt.Sprintf("%d/%d", c.epochs, c.epochs)) ||
			strings.Contains(last, "left") {
			t.Errorf("last line %q", last)
		}
	}
}

func TestProgressSaysTheTimeLeft(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := &Progress{LiveLine: LiveLine{Out: &out}, atMost: true, Clock: func() time.Time { return now }}
	for e := 1; e <= 11; e++ {
		now = now.Add(2 * time.Second)
		p.Epoch(train.Epoch{
			Metric: "accuracy", Epoch: e, Epochs: 21, Loss: 0.5,
			Scores: metric.Scores{Train: 1, Val: 0.8, Test: 0.75}, Evaluated: e == 10, Seconds: 1,
			PeakBytes: 1234567890,
		})
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := "epoch 11/21  loss 0.5000  train 100.00 %  val  80.00 %  test  75.00 %   1.0 s/epoch  1.2 GB  " +
		"at most 20 s left"
	assert.Equal(t, want, lines[len(lines)-1])

	// --max-time ends the run before its epochs do
	p.until = now.Add(12 * time.Second)
	e := train.Epoch{Epoch: 11, Epochs: 21}
	assert.Equal(t, "12 s left of --max-time", p.Remaining(e))
	assert.Equal(t, "0.0 ms left of --max-time", p.left(e, now.Add(time.Minute)))
	e.Epochs = 16
	assert.Equal(t, "at most 10 s left", p.Remaining(e))
	e.Epochs = 11
	assert.Equal(t, "", p.Remaining(e))
	p.before, e.Epochs, p.until = 1, 20, time.Time{} // nine epochs since the first took 20 s
	assert.Equal(t, "at most 20 s left", p.left(e, now))
	p.before, e.Epochs = 6, 12 // a run that continues with epoch 7
	assert.Equal(t, "at most 5.0 s left", p.Remaining(e))
	e.Epochs = 10_000_011 // 10⁷ epochs of 5 s; the longest time that is shown is 146 years
	assert.Equal(t, "at most 13888 h 53 min left", p.Remaining(e))
	e.Epochs = math.MaxInt64
	assert.Equal(t, "at most 1281023 h 53 min left", p.Remaining(e))
}

// The time of an epoch is the median of the last 101.
func TestProgressSaysTheMedian(t *testing.T) {
	var out bytes.Buffer
	p := &Progress{LiveLine: LiveLine{Out: &out}, Clock: func() time.Time { return time.Unix(0, 0) }}
	for e := 1; e <= 200; e++ { // the last 101 are 49 of 4 s, 51 of 2 s and one that is slow
		each := 4.
		if e > 148 {
			each = 2
		}
		if e == 199 {
			each = 60
		}
		p.Epoch(train.Epoch{Epoch: e, Epochs: 200, Seconds: each})
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	assert.Equal(t, "epoch 200/200  loss 0.0000   2.0 s/epoch     0 B", lines[len(lines)-1])
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		Count(0): "0", Count(999): "999", Count(1000): "1,000", Count(-1234567): "-1,234,567",
		Megabytes(999): "999 B", Megabytes(1500): "1.5 kB", Megabytes(31_400_000): "31 MB",
		Megabytes(4_000_000_000):          "4.0 GB",
		Duration(1234 * time.Microsecond): "1.2 ms", Duration(250 * time.Millisecond): "250 ms",
		Duration(3400 * time.Millisecond): "3.4 s",
		Duration(59 * time.Second):        "59 s", Duration(125 * time.Second): "2 min 05 s",
		Duration(2*time.Hour + 5*time.Minute): "2 h 05 min", Duration(Seconds(1e30)): "1281023 h 53 min",
		Percent(0.8125): "81.25 %",
	} {
		assert.Equal(t, want, got)
	}
}

func TestFilled(t *testing.T) {
	const text = "train trains a model on a\nwhole graph.\n\nAn example:\n  weft train cora --epochs 100 " +
		"--hidden 16\nThe end."
	const want = "train trains a\nmodel on a whole\ngraph.\n\nAn example:\n  weft train cora --epochs 100 " +
		"--hidden 16\nThe end."
	assert.Equal(t, want, Filled(text, 16))
}
