import BrokerModel
import Cluster
import NATSClient
import Platform
import ServerLoops

/// What the parts of a node's gateway need of the gateway itself, and by it of each other.
///
/// `ClusterRunner` is it, and owns the parts; they hold it `unowned`, since none outlives it.
protocol GatewayContext: AnyObject {
    /// In milliseconds since 1970.
    var wallClock: UInt64 { get }

    /// Brings a message to a shard's loop.
    func post(_ message: FromGateway, to shard: Int)

    /// What the log calls a node.
    func shownName(of node: NodeID) -> String

    /// A record of a stream was refused for want of room.
    func refused(_ stream: String, _ error: JetStreamError)

    /// Logs why the cluster does not do what it is to, once until messages flow again.
    func report(_ reason: String)

    /// The ticket behind all that this node has told of its share groups.
    var lastTicket: UInt64 { get }

    /// Whether all nodes know what was told up to this ticket.
    func isInForce(_ ticket: UInt64) -> Bool

    /// The messages that are on their way to the servers and have to be there before a will.
    func ahead(of will: SavedWill) -> WillAhead

    /// Whether any of the messages in front of a will is still on its way.
    func isOnItsWay(_ ahead: WillAhead) -> Bool

    /// Takes note that something which was on its way to the log, or to the retained messages, is there or is given up:
    /// wills may have waited for that.
    func writeIsOver()

    /// Tells the parts that a partition of the log ends at a record, in front of some that were read.
    func logIsCut(_ partition: Int, at last: UInt64)

    /// How far a session has come by the claim that has saved it: `SessionRecord.Saved.places`, or what the log says
    /// since in the same form.
    func positions(of session: [UInt8], _ saved: SessionRecord.Saved) -> [UInt8]

    /// Tells the parts that a node offers in the log to dispatch for one that is gone.
    func logSays(successorOf gone: NodeID, _ successor: NodeID)
}

/// Says of each record that was read before whether it counts, for those who read it once more.
protocol ReadLog: AnyObject {
    /// Says which records of a partition count, from one on that was read.
    func order(of partition: Int, from sequence: UInt64) -> LogOrder

    /// Takes note that records of a partition have gone, up to this one.
    ///
    /// - Returns: up to where that was known.
    func recordGone(_ partition: Int, through sequence: UInt64) -> UInt64
}

extension ClusterRunner: GatewayContext {
    var wallClock: UInt64 { WallClock.milliseconds() }

    func post(_ message: FromGateway, to shard: Int) { loop.loops[shard].post(message, from: loop) }

    func shownName(of node: NodeID) -> String { members.table.shownName(of: node) }

    func refused(_ stream: String, _ error: JetStreamError) { refusals.refused(stream, error) }

    var lastTicket: UInt64 { bus.lastTicket }

    func isInForce(_ ticket: UInt64) -> Bool { bus.isInForce(ticket) }

    func ahead(of will: SavedWill) -> WillAhead {
        will.withMessage { message in
            let changes = message.retain ? retained.changes(of: message.topic) : []
            return WillAhead(
                log: log?.place(of: message.publisher, message.topic),
                retained: changes.isEmpty ? nil : (Array(message.topic), changes))
        } ?? WillAhead()
    }

    func isOnItsWay(_ ahead: WillAhead) -> Bool {
        if let place = ahead.log, log?.hasPassed(place) == false { return true }
        return ahead.retained.map { retained.isOpen($0.changes, of: $0.topic) } ?? false
    }

    func writeIsOver() {
        sessions?.goOnWithWills()
        settle()
    }

    func logIsCut(_ partition: Int, at last: UInt64) { dispatch?.isCut(partition, at: last) }

    func positions(of session: [UInt8], _ saved: SessionRecord.Saved) -> [UInt8] {
        log?.positions(of: session, saved) ?? saved.places
    }

    func logSays(successorOf gone: NodeID, _ successor: NodeID) { dispatch?.said(successorOf: gone, by: successor) }
}
