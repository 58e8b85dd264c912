import BrokerModel
import MQTTCodec

/// The part of a session that most of many sessions never need: an idle client costs the broker little.
final class SessionExtras {
    var will: Will?
    var willName: SavedWill.Name?
    var willDueAt: UInt64 = .max
    var mountPoint: [UInt8] = []
    var retainedSource: RetainedSource?
    var retainedAhead = 0
    var groups = GroupMemberships()
    var owed: OwedRetained?
    var drops = DropCounts()
    var dropsTold: UInt64 = 0
    var topicPart: TopicPart?
    var logFloor: LogPlaces?
    var stepFloor = FlowStep.Place.start
}

/// What stands there, as if the session had it itself. Nothing is made for what is nothing.
extension Session {
    var will: Will? {
        get { extras?.will }
        set { if newValue != nil || extras != nil { makeExtras().will = newValue } }
    }

    /// What the cluster calls the will, if its sessions move; nil for one that is this node's alone.
    var willName: SavedWill.Name? {
        get { extras?.willName }
        set { if newValue != nil || extras != nil { makeExtras().willName = newValue } }
    }

    /// When the will of a client that is away is due; `UInt64.max` for none.
    var willDueAt: UInt64 {
        get { extras?.willDueAt ?? .max }
        set { if newValue != .max || extras != nil { makeExtras().willDueAt = newValue } }
    }

    /// What its client's topics begin with inside the broker. Together with the user name it is whose the session is.
    var mountPoint: [UInt8] {
        get { extras?.mountPoint ?? [] }
        set { if !newValue.isEmpty || extras != nil { makeExtras().mountPoint = newValue } }
    }

    /// Whose its client's messages that are retained are; made when the first one comes.
    var retainedSource: RetainedSource? {
        get { extras?.retainedSource }
        set { if newValue != nil || extras != nil { makeExtras().retainedSource = newValue } }
    }

    /// How many retained messages other shards may send ahead of what it has taken, all scans together.
    var retainedAhead: Int {
        get { extras?.retainedAhead ?? 0 }
        set { if newValue != 0 || extras != nil { makeExtras().retainedAhead = newValue } }
    }

    /// The share groups that it is in. To be changed where it is in one, or comes to be.
    var groups: GroupMemberships {
        get { extras?.groups ?? GroupMemberships() }
        _modify { yield &makeExtras().groups }
    }

    /// The retained messages that its client has not had; nil for none.
    var owed: OwedRetained? {
        get { extras?.owed }
        set { if newValue != nil || extras != nil { makeExtras().owed = newValue } }
    }

    /// What the client has lost, in both directions, since its session is here.
    var drops: DropCounts {
        get { extras?.drops ?? DropCounts() }
        // In place: a client that reads too slowly may lose every message.
        _modify { yield &makeExtras().drops }
    }

    /// How many of them the log has told of.
    var dropsTold: UInt64 {
        get { extras?.dropsTold ?? 0 }
        set { if newValue != 0 || extras != nil { makeExtras().dropsTold = newValue } }
    }

    /// The topics that it is for; nil for all.
    var topicPart: TopicPart? {
        get { extras?.topicPart }
        set { if newValue != nil || extras != nil { makeExtras().topicPart = newValue } }
    }

    /// What it was given of the log before the broker's start, where its shard reads from an earlier place; nil for no more than that.
    var logFloor: LogPlaces? {
        get { extras?.logFloor }
        set { if newValue != nil || extras != nil { makeExtras().logFloor = newValue } }
    }

    /// Steps of the cluster's log up to this one say nothing of it: they are in what it came with, or of an earlier session.
    var stepFloor: FlowStep.Place {
        get { extras?.stepFloor ?? .start }
        set { if newValue != .start || extras != nil { makeExtras().stepFloor = newValue } }
    }

    private func makeExtras() -> SessionExtras {
        if let extras { return extras }
        let made = SessionExtras()
        extras = made
        return made
    }
}
