// Graphs. A node has the arguments of its kernel at the time when it was added. An executable has the
// arguments that the nodes of its graph had when it was made, or those that were set later. A launch takes
// the arguments that the executable has at that time. If several nodes may run, the one that was added last
// runs first, so that a missing dependency shows as other bits.
extern "C" {
struct graph;
struct node {
	graph *of;
	launched what;
	std::vector<size_t> after; // the numbers of the nodes before it
};
struct graph {
	const card *on;
	std::deque<node> nodes;
};
struct executable {
	const card *on;
	graph *of;
	std::vector<node> nodes;
	uint64_t begun, ended; // numbers of launches; under mu
};
static std::set<graph *> graphs; // not yet destroyed; under mu
struct node_params { // CUDA_KERNEL_NODE_PARAMS_v2
	function *runs;
	unsigned grid[3], block[3], shared;
	void **params, **extra, *kernel, *context;
};
// The number of a node in its graph. It ends the process if the graph does not have the node.
static size_t number_of(const char *caller, const graph *g, const node *n) {
	std::lock_guard<std::mutex> hold(mu);
	for (size_t k = 0; graphs.count((graph *)g) && k < g->nodes.size(); k++)
		if (&g->nodes[k] == n)
			return k;
	misused("%s: the node is of another graph, or of one that was destroyed", caller);
}
result cuGraphCreate(graph **g, unsigned flags) {
	BEFORE;
	std::lock_guard<std::mutex> hold(mu);
	return flags ? INVALID_VALUE : (*g = *graphs.insert(new graph{current, {}}).first, OK);
}
result cuGraphDestroy(graph *graph) {
	BEFORE;
	HERE(graph);
	std::lock_guard<std::mutex> hold(mu);
	return graphs.erase(graph), delete graph, OK;
}
result cuGraphAddKernelNode_v2(node **n, graph *graph, node *const *after, size_t count,
                               const node_params *p) {
	BEFORE;
	HERE(graph);
	if (!p->runs || !p->params || p->extra)
		return INVALID_VALUE;
	node made{graph, launch_of(__func__, p->runs, p->grid, p->block, p->params[0]), {}};
	for (size_t k = 0; k < count; k++)
		made.after.push_back(number_of(__func__, graph, after[k]));
	graph->nodes.push_back(made);
	return *n = &graph->nodes.back(), OK;
}
result cuGraphInstantiateWithFlags(executable **e, graph *graph, unsigned long long) {
	BEFORE;
	HERE(graph);
	return *e = new executable{current, graph, {graph->nodes.begin(), graph->nodes.end()}, 0, 0}, OK;
}
result cuGraphExecKernelNodeSetParams_v2(executable *executable, node *n, const node_params *p) {
	BEFORE;
	HERE(executable);
	const size_t k = number_of(__func__, executable->of, n);
	if (!p->runs || !p->params || p->extra)
		return INVALID_VALUE;
	executable->nodes[k].what = launch_of(__func__, p->runs, p->grid, p->block, p->params[0]);
	return OK;
}
result cuGraphLaunch(executable *executable, stream *stream) {
	BEFORE;
	HERE(executable), HERE(stream);
	std::unique_lock<std::mutex> hold(mu);
	executable->begun++;
	hold.unlock();
	return ask(stream, [executable, nodes = executable->nodes] {
		std::vector<bool> done(nodes.size());
		for (size_t left = nodes.size(); left--;)
			for (size_t k = nodes.size(); k--;)
				if (!done[k] && std::all_of(nodes[k].after.begin(), nodes[k].after.end(),
				                            [&](size_t a) { return done[a]; })) {
					nodes[k].what.run(), done[k] = true;
					break;
				}
		std::lock_guard<std::mutex> hold(mu);
		executable->ended++;
	}), OK;
}
result cuGraphExecDestroy(executable *executable) {
	BEFORE;
	HERE(executable);
	std::unique_lock<std::mutex> hold(mu);
	if (executable->begun != executable->ended)
		misused("cuGraphExecDestroy: a launch of the graph has not ended");
	hold.unlock();
	return delete executable, OK;
}
}
