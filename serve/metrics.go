package serve

import (
	"fmt"
	"io"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// latencies are the upper bounds of the histogram, in seconds.
var latencies = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// figures are the numbers that /metrics tells.
type figures struct {
	set      *metrics.Set
	seconds  *metrics.PrometheusHistogram
	computed *metrics.Counter
}

func newFigures(s *Server) *figures {
	f := &figures{set: metrics.NewSet()}
	f.seconds = f.set.NewPrometheusHistogramExt("weft_request_duration_seconds", latencies)
	computed := "vertices"
	if s.learned != nil {
		computed = "edges"
	}
	f.computed = f.set.NewCounter("weft_computed_" + computed + "_total")
	f.set.NewGauge("weft_queue_length", func() float64 { return float64(s.queue.length()) })
	f.set.NewGauge("weft_graph_vertices", func() float64 { return float64(s.model.Graph.Vertices()) })
	return f
}

// request counts a request to /predict by the status of its answer.
func (f *figures) request(status int, began time.Time) {
	f.set.GetOrCreateCounter(fmt.Sprintf(`weft_requests_total{status="%d"}`, status)).Inc()
	f.seconds.UpdateDuration(began)
}

// unknown counts the values of new vertices that the model does not know, by column.
func (f *figures) unknown(columns map[string]int) {
	for column, n := range columns {
		f.set.GetOrCreateCounter(fmt.Sprintf("weft_unknown_values_total{column=%q}", column)).Add(n)
	}
}

// write writes the figures, and figures of the process, in Prometheus' text format.
func (f *figures) write(to io.Writer) {
	f.set.WritePrometheus(to)
	metrics.WriteProcMetrics(to)
}
