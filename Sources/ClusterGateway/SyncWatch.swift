import BrokerCore
import BrokerModel
package import Configuration
import Platform
package import ServerLoops

/// Finds out whether the cluster's servers sync what they acknowledge, and so what an acknowledgement of the cluster says. On the control
/// thread; servers are asked on a thread of its own.
package final class SyncWatch {
    private let plan: ClusterPlan
    private let log: Log
    private let post: @Sendable ([SyncConduct]) -> Void
    private let tell: (String?) -> Void
    private var isAsking = false
    /// Whether what is being asked has to be asked once more: a server may have come meanwhile.
    private var asksAgain = false
    /// What was found out last, in the order of the plan's monitors; empty before that.
    package private(set) var conducts: [SyncConduct] = []

    /// - Parameters:
    ///   - plan: the cluster.
    ///   - log: where changes are told.
    ///   - post: brings the answers to `received`, from any thread.
    ///   - tell: is told why the cluster does not do what the configuration asks for; nil when it does.
    package init(
        _ plan: ClusterPlan, log: Log, post: @escaping @Sendable ([SyncConduct]) -> Void, tell: @escaping (String?) -> Void
    ) {
        (self.plan, self.log, self.post, self.tell) = (plan, log, post, tell)
    }

    /// What an acknowledgement says; nil if nobody knows.
    package var mode: ClusterMode? {
        guard !conducts.isEmpty else { return nil }
        if conducts.contains(where: { if case .every = $0 { true } else { false } }) { return .replicated }
        return conducts.allSatisfy { $0 == .always } ? .synced : nil
    }

    /// Asks all servers, when the last answers have come.
    package func ask() {
        guard !plan.monitors.isEmpty else { return }
        guard !isAsking else {
            asksAgain = true
            return
        }
        isAsking = true
        let (monitors, post) = (plan.monitors, post)
        do throws(SystemError) {
            // It ends by itself: each server has its time to answer.
            _ = try NamedThread.start(name: "martlet-monitor") { post(monitors.map { $0.ask() }) }
        } catch {
            isAsking = false
        }
    }

    package func received(_ answers: [SyncConduct]) {
        isAsking = false
        defer {
            if asksAgain {
                asksAgain = false
                ask()
            }
        }
        guard answers != conducts else { return }
        let before = mode
        conducts = answers
        for (monitor, conduct) in zip(plan.monitors, conducts) {
            if case .unknown(let reason) = conduct {
                log.write(.warning, "Cluster \(plan.name): it is not known when the server at \(monitor) syncs: \(reason).")
            }
        }
        if let mode, mode != before { log.write(.notice, "Cluster \(plan.name): \(Self.words(mode)).") }
        tell(plan.mode == .synced ? complaint : nil)
    }

    /// Which server does not sync.
    private var complaint: String? {
        for (monitor, conduct) in zip(plan.monitors, conducts) {
            guard case .every(let seconds) = conduct else { continue }
            return "the server at \(monitor) syncs every \(seconds) s only: martlet_cluster_mode synced wants sync_interval: always"
        }
        return nil
    }

    private static func words(_ mode: ClusterMode) -> String {
        switch mode {
        case .synced: "what is acknowledged is on the disks of a majority of the servers"
        case .replicated: "what is acknowledged is in the memory of a majority of the servers, and on their disks a little later"
        }
    }
}
