import BrokerModel

/// What the log says of the QoS 2 messages that a session's client was sent by nodes that are lost, and of what share groups have dealt it.
///
/// Steps come in any order; of all that are known the answers follow.
struct SentFlows {
    /// A message that was sent and is not acknowledged, as far as anybody knows: it is sent again with its packet identifier.
    struct Unfinished: Equatable {
        let name: MessageName
        let packetIdentifier: UInt16
    }

    private var steps: [FlowStep] = []
    /// What nobody is to send for the first time: it was sent, or is done.
    private(set) var known: Set<MessageName> = []
    /// In the order in which they were sent.
    private(set) var unfinished: [Unfinished] = []
    /// Packet identifiers that the client may hold of messages that it has, or that nobody can send again: they are to be released.
    private(set) var released: [UInt16] = []
    /// What share groups have dealt it, and nobody has sent it with QoS 2, by the message as it was published.
    private(set) var dealt: [MessageName: [MessageName]] = [:]

    mutating func note(_ step: FlowStep) { steps.append(step) }

    /// All steps are known.
    ///
    /// - Parameter isOthers: whether a message that a share group has dealt the session is another one's by now.
    mutating func settle(_ isOthers: (MessageName) -> Bool) {
        var given: Set<MessageName> = []
        var flows: [UInt16: (name: MessageName, place: FlowStep.Place, isAcknowledged: Bool)] = [:]
        for step in steps.sorted(by: { $0.place < $1.place }) {
            for identifier in step.finished where flows[identifier]?.isAcknowledged == true { flows[identifier] = nil }
            switch step.kind {
            case .sent(let name):
                // One that was killed before it had sent it has chosen another identifier before.
                if !known.insert(name).inserted, name != .none {
                    for (identifier, flow) in flows where flow.name == name && !flow.isAcknowledged { flows[identifier] = nil }
                }
                flows[step.packetIdentifier] = (name, step.place, name == .none)
            case .acknowledged:
                flows[step.packetIdentifier] = (flows[step.packetIdentifier]?.name ?? .none, step.place, true)
            case .dealt(let name): if !isOthers(name) { given.insert(name) }
            case .received, .released, .mark: continue
            }
        }
        known.remove(.none)
        for name in given.subtracting(known).sorted(by: { $0.rawValue < $1.rawValue }) {
            dealt[name.asPublished, default: []].append(name)
        }
        steps = []
        unfinished = flows.filter { !$0.value.isAcknowledged }.sorted { $0.value.place < $1.value.place }
            .map { Unfinished(name: $0.value.name, packetIdentifier: $0.key) }
        released = flows.filter { $0.value.isAcknowledged }.keys.sorted()
    }

    /// What share groups have dealt it of a message, and was not asked about before.
    mutating func takeDealt(_ message: MessageName) -> [MessageName] {
        dealt.isEmpty ? [] : dealt.removeValue(forKey: message) ?? []
    }

    /// Forgets what was dealt and is not in the log any more.
    mutating func forgetDealt() { dealt = [:] }

    /// A message is not in the log any more, or stands before what is read of it, so that it was done: its packet identifier is all that is left.
    mutating func forget(_ flow: Unfinished) {
        unfinished.removeAll { $0 == flow }
        released.append(flow.packetIdentifier)
    }
}
