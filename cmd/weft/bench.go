package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"weft/internal/bench"
	"weft/internal/refusal"
)

type benchCommand struct {
	threads int
	only    string
	quick   bool
}

func newBench() *cobra.Command {
	c := &benchCommand{}
	cmd := &cobra.Command{
		Use:   "bench [kernels|epoch]",
		Short: "measure how close kernels and epochs come to this machine's limits",
		Long: `bench measures the kernels against the machine, and epochs against their kernels.

  kernels  each kernel on a range of shapes, against a bound from rates that probes measure in the same run
  epoch    an epoch of three models, against the sum of its kernels run alone and against a bound of its own

Without a name it does both. A fraction of 1 is as fast as the bound. Run nothing else on the machine meanwhile.`,
		Example: `  weft bench
  weft bench kernels --only 'spmm.*rmat'
  weft bench kernels --json > kernels.json
  weft bench epoch --only gat`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownName(cmd, "part of bench", args[0])
		},
		RunE: c.run(c.both),
	}
	c.addFlags(cmd)
	cmd.AddCommand(
		newBenchPart(benchKernels, &cobra.Command{
			Use:   "kernels",
			Short: "each kernel against a bound from rates measured in the same run",
			Long: `kernels runs each kernel on a range of shapes: graphs of uniform and of skewed degrees (rmat), with rows that fit into a cache and
rows that do not. Probes with the same threads measure the machine's rates. A bound is a time that follows from these rates, and the
command prints bound ÷ measured time.

  memory   gathered bytes ÷ gather rate + streamed bytes ÷ stream rate. Attention adds its exponentials ÷ their rate.
           GATv2 ("attention v2") adds the terms a·LeakyReLU(x + y) of its scores ÷ their rate. A dense product with a
           side under 256 adds its operations ÷ the rate of the best large square product
  compute  operations ÷ the rate of the best large square product
  thin     rows of at most 16 columns: a probe that reads the indices and a word of each cache line of their rows. The
           rows fit into a core's own cache ("core"), into the shared cache, or into none

It takes some minutes.`,
			Example: `  weft bench kernels
  weft bench kernels --only '^attention' --threads 1
  weft bench kernels --json > kernels.json`,
		}),
		newBenchPart(benchEpoch, &cobra.Command{
			Use:   "epoch",
			Short: "an epoch of three models against the sum of its kernels, and against its bound",
			Long: `epoch trains GraphSAGE, GAT and GCN of three layers for a few epochs, in float32 and in bfloat16, without dropout, on a uniform
graph of 200,000 vertices of degree 15 and on one of skewed degrees (rmat) of a million vertices. In one more epoch it repeats each
kernel call several times. The fraction is the kernels' share of the epoch's time; the rest is the time of the program around them.

The bound is what the layers need at least, at rates that probes measure in the same run: operations of dense products ÷ the rate of
the best large product of the precision + gathered bytes ÷ gather rate + the bytes that products and sums along edges need to read
and to write ÷ the rates of reads and writes. Norms, activations, the loss and exponentials of attention are not in it. The parts
are added up, although a product computes while its rows pass: an epoch may be a little below its bound.

It takes some minutes and up to 10 GB of memory.`,
			Example: `  weft bench epoch
  weft bench epoch --only 'sage.*bf16 uniform'
  weft bench epoch --json > epoch.json`,
		}))
	return cmd
}

// newBenchPart completes the command of a part.
func newBenchPart(
	measure func(context.Context, io.Writer, bench.Options) (any, error), cmd *cobra.Command,
) *cobra.Command {
	c, asJSON := &benchCommand{}, false
	c.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the results as one JSON object")
	cmd.Args = arguments(0, 0)
	cmd.RunE = c.run(func(ctx context.Context, out io.Writer, o bench.Options) error {
		show := out
		if asJSON {
			show = io.Discard
		}
		report, err := measure(ctx, show, o)
		if err == nil && asJSON {
			err = printJSON(out, report)
		}
		return err
	})
	return cmd
}

func (c *benchCommand) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&c.threads, "threads", 0, "threads to measure with, 0: all cores")
	flags.StringVar(&c.only, "only", "", "measure only the kernels or epochs whose \"name shape\" matches "+
		"this `regexp`")
	flags.BoolVar(&c.quick, "quick", false, "small shapes and few repetitions: seconds, for a first look")
}

// run reads the flags, and lets a signal end the measurement.
func (c *benchCommand) run(measure func(ctx context.Context, out io.Writer,
	o bench.Options) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		o := bench.Options{Threads: c.threads, Quick: c.quick, CPU: procEntry("/proc/cpuinfo", "model name")}
		if c.threads < 0 || c.threads > 1<<12 {
			return refusal.Errorf("--threads %d: give between 1 and %d, or 0 for all cores", c.threads, 1<<12)
		}
		if c.only != "" {
			var err error
			if o.Only, err = regexp.Compile(c.only); err != nil {
				return refusal.Errorf("--only %s: %w", c.only, err)
			}
		}
		endWithReader()
		ctx, stop := untilSignal(cmd.Context(), func(s os.Signal) {
			fmt.Fprintf(cmd.ErrOrStderr(), "weft: %s: stopping after the measurement under way; interrupt "+
				"again to stop at once\n", s)
		}, nil)
		defer stop()
		return measure(ctx, cmd.OutOrStdout(), o)
	}
}

// both draws the kernels and then the epochs. With --only there may be nothing to measure for one of them.
func (c *benchCommand) both(ctx context.Context, out io.Writer, o bench.Options) error {
	_, kernels := benchKernels(ctx, out, o)
	if kernels != nil && (c.only == "" || !refusal.Is(kernels)) {
		return kernels
	}
	_, epochs := benchEpoch(ctx, out, o)
	if kernels == nil && refusal.Is(epochs) {
		return nil
	}
	return epochs
}

func benchKernels(ctx context.Context, show io.Writer, o bench.Options) (report any, err error) {
	name := ""
	return bench.Kernels(ctx, o,
		showRates(show),
		func(k bench.Kernel) {
			if k.Name != name {
				name = k.Name
				fmt.Fprintf(show, "\n%-44s %9s %9s %9s  of the bound\n", name, "time", "GFLOP/s", "GB/s")
			}
			fmt.Fprintf(show, "  %-42s %9s %9.1f %9.1f  %s %3.0f %% %s\n", k.Shape,
				duration(seconds(k.Seconds)), k.GFLOPS, k.GBytesPerSec,
				bar(k.Fraction, 20), 100*k.Fraction, k.Bound)
		})
}

// showRates shows the machine's rates.
func showRates(show io.Writer) func(bench.Machine) {
	return func(m bench.Machine) {
		for _, line := range m.Describe() {
			fmt.Fprintln(show, line)
		}
	}
}

func benchEpoch(ctx context.Context, show io.Writer, o bench.Options) (report any, err error) {
	return bench.Epoch(ctx, o, showRates(show), func(m bench.Model) {
		fmt.Fprintf(show, "\n%s in %s on %s\n", m.Model, m.Precision, m.Graph)
		fmt.Fprintf(show, "  epoch %s, its kernels %s  %s %3.0f %%\n", duration(seconds(m.EpochSeconds)),
			duration(seconds(m.KernelSeconds)),
			bar(m.Fraction, 20), 100*m.Fraction)
		fmt.Fprintf(show, "  %.2f times its bound of %s: products %s, gathered rows %s, streamed rows %s\n",
			m.TimesBound, duration(seconds(m.BoundSeconds)), duration(seconds(m.Bound.Products)),
			duration(seconds(m.Bound.Gathered)), duration(seconds(m.Bound.Streamed)))
		for _, call := range m.Calls {
			if share := call.Seconds / m.EpochSeconds; share >= 0.005 {
				fmt.Fprintf(show, "    %-26s %-24s %3d × %9s  %s %3.0f %%\n", call.Name, call.Shape,
					call.Times, duration(seconds(call.Seconds/float64(call.Times))),
					bar(share, 20), 100*share)
			}
		}
	})
}

// bar draws a fraction between 0 and 1 with a number of cells.
func bar(fraction float64, cells int) string {
	full := min(max(int(fraction*float64(cells)+0.5), 0), cells)
	return strings.Repeat("▇", full) + strings.Repeat("▁", cells-full)
}
