import Administration
import BrokerCore
import BrokerModel
import Cluster
import ClusterGateway
import Configuration
import DynamicSecurity
import EpollLoop
import Persistence
import Platform
import ServerLoops
import Transports

/// The cluster that the broker is a node of. On the control thread.
extension Server {
    /// Lets the loops be a node, before they run.
    func joinCluster() {
        guard let clusterPlan else { return }
        let node = NodeIncarnations.first(storeSeed: keeper?.store.seed)
        for loop in loops {
            loop.shard.joinCluster(
                logPartitions: clusterPlan.logPartitions, claimsSessions: clusterPlan.movesSessions, node: node.rawValue,
                startMilliseconds: Limits.clusterStartMilliseconds)
        }
        loops[0].cluster = ClusterRunner(clusterPlan, node: node, on: loops[0])
        control.repeatEvery(Limits.clusterReportMilliseconds) { [unowned self] in loops[0].mailbox.post(.cluster(.report)) }
        let brokerClient = ClusterAdministration(clusterPlan, self)
        clusterAdministration = brokerClient
        brokerClient.summarize()
        control.repeatEvery(Limits.summaryMilliseconds) { brokerClient.summarize() }
        watchSyncs(clusterPlan)
    }

    /// Finds out what an acknowledgement says, now and from time to time.
    private func watchSyncs(_ plan: ClusterPlan) {
        if plan.monitors.isEmpty, plan.mode == .synced {
            log.write(
                .warning,
                "Cluster \(plan.name): it is not known whether the servers sync what they acknowledge: set "
                    + "martlet_cluster_monitors to find out.")
        }
        let watch = SyncWatch(
            plan, log: log, post: { [mailbox = control.mailbox] in mailbox.post(.syncConducts($0)) },
            tell: { [unowned self] in loops[0].mailbox.post(.cluster(.unsynced($0))) })
        syncWatch = watch
        watch.ask()
        control.repeatEvery(Limits.monitorMilliseconds) { watch.ask() }
    }

    /// By what the node is to be let in by the servers from now on; nil if that has not changed. A file that the same options name as before,
    /// and that cannot be read now, is no reason to refuse all of a new configuration.
    func newCredentials(_ wantedConfiguration: BrokerConfiguration) throws(ServerError) -> ClusterCredentials? {
        guard let clusterPlan else { return nil }
        let wanted: ClusterCredentials
        do throws(ServerError) {
            wanted = try ClusterCredentials(wantedConfiguration.cluster, serverName: clusterPlan.credentials.tls.serverName)
        } catch {
            guard wantedConfiguration.cluster == configuration.cluster else { throw error }
            log.write(.error, "Error: \(error); what was read before stays in use.")
            return nil
        }
        return wanted.isSame(as: clusterCredentials ?? clusterPlan.credentials) ? nil : wanted
    }

    func renewCluster(_ credentials: ClusterCredentials) {
        clusterCredentials = credentials
        loops[0].mailbox.post(.cluster(.credentials(credentials)))
    }

    /// How the cluster is, as the loop that speaks to the servers says.
    func note(_ status: ClusterStatus) {
        clusterStatus = status
        drain?.renewNotice()
    }
}

// MARK: - What nodes share

extension Server {
    /// Brings an order to the bucket that the nodes share.
    func sendToCluster(_ order: AccessOrder) { loops[0].mailbox.post(.cluster(.access(order))) }

    func received(_ news: AccessNews) {
        let now = Self.moment().wallMilliseconds
        switch news {
        case .whole(let state):
            bans?.received(state, at: now)
            securityService?.received(state)
        case .ban(let entry): bans?.received(entry, at: now)
        case .banAnswer(let token, let failure): bans?.answered(token, failure)
        case .security(let revision, let pieces): securityService?.received(revision: revision, pieces)
        case .verdict(let verdict): securityService?.received(verdict)
        }
    }

    /// Dynamic security of a file, for all nodes.
    func sharedSecurity(of keeper: SecurityKeeper) -> SharedSecurity {
        let mailbox = control.mailbox
        let shared = SharedSecurity(keeper, log: log, send: { [unowned self] in sendToCluster($0) }) { pieces in
            @Sendable func read() {
                do throws(SecurityFile.Complaint) {
                    mailbox.post(.securityRead(.success(try SecurityFile.model(reading: Array(pieces.joined())))))
                } catch {
                    mailbox.post(.securityRead(.failure(error)))
                }
            }
            do throws(SystemError) {
                // It ends by itself; nobody waits for it.
                _ = try NamedThread.start(name: "martlet-read") { read() }
            } catch {
                read()
            }
        }
        shared.endSessions = { [unowned self] in endSessions($0) }
        return shared
    }
}

extension AdministeredCluster {
    init(_ plan: ClusterPlan, _ status: ClusterStatus, _ syncs: SyncWatch?) {
        self.init(name: plan.name)
        (trouble, server, otherNodes) = (status.trouble, status.server, status.others)
        (messagesOut, messagesIn) = (status.messagesOut, status.messagesIn)
        (dropped, copies, illegible) = (status.dropped, status.copies, status.illegible)
        losses = status.losses
        (sessionsTaken, sessionsGiven) = (status.sessionsTaken, status.sessionsGiven)
        (sessionsLost, claimsRefused) = (status.sessionsLost, status.claimsRefused)
        (sessionsRestored, sessionsExpired) = (status.sessionsRestored, status.sessionsExpired)
        willsOfOthers = status.willsOfOthers
        (logWritten, logFailed, logRead, logLost) = (status.logWritten, status.logFailed, status.logRead, status.logLost)
        (retainedWaiting, refusingStreams) = (status.retainedWaiting, status.refusingStreams)
        mode = syncs?.mode?.rawValue
        servers = zip(plan.monitors, syncs?.conducts ?? []).map { monitor, conduct in
            switch conduct {
            case .always: Server(address: "\(monitor)", syncs: .always)
            case .every(let seconds): Server(address: "\(monitor)", syncs: .everySeconds(seconds))
            case .unknown(let reason): Server(address: "\(monitor)", syncs: .unknown(reason))
            }
        }
        sharedNames = status.sharedNames
        let offset = WallClock.offsetMilliseconds()
        nodes = status.members.map { AdministeredNode($0, wallClockOffset: offset) }
    }
}

extension AdministeredNode {
    init(_ member: ClusterMember, wallClockOffset: UInt64) {
        let state: State =
            switch member.state {
            case .up: .up
            case .silent: .silent
            case .left: .left
            case .gone: .gone
            }
        self.init(
            identifier: member.node.description, name: member.summary.flatMap { $0.name.isEmpty ? nil : $0.name }, state: state,
            isSelf: member.isSelf, since: member.since &+ wallClockOffset, figures: member.summary.map { Figures($0) })
        clockOffset = member.clockOffset.map { Double($0) / 1000 }
        guard let offset = member.clockOffset, ClockWatch.isFar(offset) else { return }
        let words = "its clock is \(ClockOffset.text(offset)) that of this node"
        clockTrouble = words
        if figures?.trouble == nil { figures?.trouble = words }
    }
}

extension AdministeredNode.Figures {
    init(_ summary: NodeSummary) {
        func orNil(_ text: String) -> String? { text.isEmpty ? nil : text }
        self.init()
        (version, startedAt) = (summary.version, summary.startedAt)
        (clientsConnected, sessions, subscriptions) = (summary.clientsConnected, summary.sessions, summary.subscriptions)
        (retainedMessages, storedMessages) = (summary.retainedMessages, summary.storedMessages)
        (receivedRate, sentRate, dropped) = (summary.receivedRate, summary.sentRate, summary.dropped)
        (residentBytes, processorLoad) = (summary.residentBytes, Double(summary.processorLoad) / 1000)
        (trouble, server) = (orNil(summary.trouble), orNil(summary.server))
        // It becomes a link: what comes from elsewhere is one to a page or none.
        dashboard = summary.dashboard.hasPrefix("http://") || summary.dashboard.hasPrefix("https://") ? summary.dashboard : nil
        (address, isDraining) = (orNil(summary.address), summary.isDraining)
    }
}
