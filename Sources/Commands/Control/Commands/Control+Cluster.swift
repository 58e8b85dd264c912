internal import Administration
internal import HTTP
internal import JSON
internal import JSONReader

/// The cluster that the broker is a node of.
extension Control {
    /// `ctl cluster`: its nodes, as this one sees them.
    public func cluster() throws(ControlError) {
        let answer = try ask(ControlRequest(["cluster"]))
        if output.isJSON { return output.put(answer.body) }
        let cluster = try value(answer)
        let totals = cluster["totals"]
        var facts = FactList()
        facts.add("Cluster", cluster["name"].cell)
        facts.add("State", cluster["trouble"].string.map { "this node is not ready: \($0)" } ?? "ready")
        facts.add("Acknowledged", Self.mode(of: cluster))
        facts.add(
            "Clients", "\(totals["clients_connected"].cell) connected, \(Figures.counted(totals["sessions"].cell, "session"))")
        facts.add("Messages", "\(totals["received_messages_rate"].cell)/s in, \(totals["sent_messages_rate"].cell)/s out")
        facts.add("Dropped", totals["dropped"].text)
        for name in cluster["shared_names"].array ?? [] {
            facts.add("Trouble", "several nodes are called \(name.cell): each needs a martlet_node_name of its own")
        }
        output.show(facts)
        output.say("")
        let node = ResourceDescription.node
        let figures = [
            "clients_connected", "sessions", "received_messages_rate", "sent_messages_rate", "stored_messages", "dropped",
            "memory_bytes",
        ]
        let columns =
            [
                node.column("name", title: "NODE") {
                    ($0["name"].string ?? $0["id"].cell) + ($0["self"].boolean == true ? " *" : "")
                },
                node.column("state", Self.state(ofNode:)), node.column("version"),
            ] + (figures + ["address", "server", "id", "trouble"]).map { node.column($0) }
        output.show(TextTable(columns, cluster["nodes"].array ?? []), orSay: "No node is known of yet.")
    }

    /// What an acknowledgement says.
    private static func mode(of cluster: JSONValue) -> String {
        switch cluster["mode"].string {
        case "synced":
            let count = (cluster["servers"].array ?? []).count
            return "on the disks of a majority of the servers, as far as martlet_cluster_monitors names them (\(count))"
        case "node": return "by this node alone, which has no store"
        case .some: return "in the memory of a majority of the servers"
        case nil:
            let unknown = (cluster["servers"].array ?? []).compactMap { server in
                server["reason"].string.map { "\(server["address"].cell): \($0)" }
            }
            return unknown.isEmpty
                ? "by a majority of the servers; set martlet_cluster_monitors to see whether on their disks"
                : "by a majority of the servers; whether on their disks is not known (\(unknown.joined(separator: "; ")))"
        }
    }

    private static func state(ofNode node: JSONValue) -> String {
        let since = node["state"].string == "up" ? "" : " since \(node["since"].time)"
        return (node["state"].string == "up" && node["draining"].boolean == true ? "draining" : node["state"].cell) + since
    }

    /// Says to people that what was shown is of one node; nothing on a broker that is alone.
    ///
    /// - Parameters:
    ///   - broker: what the broker has said of itself; nil if it is still to be asked.
    ///   - more: what shows all nodes; nil for nothing.
    func sayOfOneNode(_ broker: JSONValue? = nil, orSee more: String? = nil) {
        guard output.width != nil, !output.isJSON else { return }
        let asked = broker ?? (try? ask(ControlRequest(["broker"]))).flatMap { try? value($0) }
        guard let asked, asked["cluster"]["name"].string != nil else { return }
        output.say("")
        output.sayForeign("This shows the node \(asked["node"].cell) only\(more.map { "; \($0)" } ?? "").")
    }

    /// The cluster in one line; nil on a broker that is alone.
    static func cluster(_ cluster: JSONValue) -> String? {
        guard let name = cluster["name"].string else { return nil }
        let states = ["up", "silent", "gone"].filter { $0 == "up" || (cluster["nodes_\($0)"].integer ?? 0) > 0 }
        let counts = states.map { "\(cluster["nodes_\($0)"].cell) \($0)" }.joined(separator: ", ")
        return "\(name), nodes: \(counts)" + (cluster["trouble"].string.map { "; this node is not ready: \($0)" } ?? "")
    }
}
