/// What can be wrong with the broker for longer than a moment.
public enum AlarmKind: String, CaseIterable, Sendable {
    /// The store takes nothing any more.
    case storeFailed = "store_failed"
    /// The store has no room.
    case storeFull = "store_full"
    /// Commits take long.
    case storeSlow = "store_slow"
    /// Where the store is there is little room left.
    case diskNearlyFull = "disk_nearly_full"
    /// Much of `memory_limit` is in use.
    case memoryHigh = "memory_high"
    /// All of `memory_limit` is in use.
    case memoryFull = "memory_full"
    /// Messages are dropped because queues are full.
    case queuesFull = "queues_full"
    /// Clients do not take what they are sent, as `martlet_slow_client` has it.
    case slowClients = "slow_clients"
    /// A bridge is not connected. Of each bridge.
    case bridgeDown = "bridge_down"
    /// A listener's certificate ends soon. Of each listener.
    case certificateEnds = "certificate_ends_soon"
    /// A listener's certificate has ended. Of each listener.
    case certificateEnded = "certificate_expired"
    /// Messages are not carried to other nodes.
    case clusterDown = "cluster_down"
    /// Another node of the cluster does not answer. Of each node.
    case nodeDown = "node_down"
    /// The cluster's servers have no room.
    case clusterFull = "cluster_full"
    /// The clock of another node differs. Of each node.
    case clockDiffers = "clock_differs"

    /// Whether messages are lost or refused, or clients cannot connect, while it lasts.
    public var isCritical: Bool {
        switch self {
        case .storeFailed, .storeFull, .memoryFull, .queuesFull, .certificateEnded, .clusterDown, .clusterFull: true
        case .storeSlow, .diskNearlyFull, .memoryHigh, .slowClients, .bridgeDown, .certificateEnds, .nodeDown, .clockDiffers: false
        }
    }

    /// How long something has to be wrong before the alarm is raised, in milliseconds.
    var delay: UInt64 {
        switch self {
        case .storeFailed, .storeFull, .memoryFull, .queuesFull, .certificateEnds, .certificateEnded, .clusterFull, .slowClients: 0
        case .storeSlow, .diskNearlyFull, .memoryHigh, .clusterDown, .clockDiffers: 5000
        case .bridgeDown, .nodeDown: 10_000
        }
    }
}

/// What an alarm is of: of each there is one at most.
struct AlarmSubject: Hashable, Sendable {
    let kind: AlarmKind
    /// The bridge, listener or node; empty where there is one alone.
    var name = ""
}

/// A condition that is wrong at a moment.
struct AlarmCondition: Sendable {
    let subject: AlarmSubject
    /// A sentence for people.
    let message: String
    /// Whether the condition is no longer bad enough to raise an alarm, and not yet good enough to clear one.
    var isHolding = false

    init(_ kind: AlarmKind, of name: String = "", _ message: String, isHolding: Bool = false) {
        subject = AlarmSubject(kind: kind, name: name)
        (self.message, self.isHolding) = (message, isHolding)
    }
}

/// One alarm, from its beginning.
struct Alarm: Sendable {
    /// Counted from 1 since the start of the broker.
    let number: Int
    let subject: AlarmSubject
    var message: String
    /// Milliseconds since 1970.
    let raisedAt: UInt64
    /// nil while it lasts.
    var clearedAt: UInt64?
    /// The administrator who has said that they know of it, and when.
    var acknowledgement: (who: String, at: UInt64)?
}

/// What has become of an alarm.
public struct AlarmChange: Sendable {
    public let kind: AlarmKind
    /// As the log has it.
    public let text: String
    public let isRaised: Bool
}
