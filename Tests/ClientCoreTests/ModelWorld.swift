import ClientCore
import MQTTCodec

/// A client with a disk and a server, between which one packet moves at a time. What the client's shell has stored is
/// there after a crash.
struct ModelWorld {
    /// What goes wrong before a step.
    enum Fault: Hashable {
        /// The connection is lost, with all that is on its way.
        case cut
        /// The connection is lost, and the server forgets the session.
        case forgetful
        /// The client ends, when it has stored that many of the changes that wait for it. What had left before arrives,
        /// or does not.
        case crash(stored: Int, arrives: Bool)
    }

    /// One thing to be stored, whole.
    private enum Entry {
        /// With the message that is kept of it, if it is one's receipt.
        case change(SessionChange, payload: [UInt8]?)
        case message([UInt8])
    }

    private(set) var server: ModelServer
    private var session: ClientSession
    private let options: ClientOptions

    // On the disk.
    private var stored = StoredClientSession()
    private(set) var inbox: [[UInt8]] = []
    /// What is to be published: the payload, and the ticket under which it was sent.
    private var outbox: [(payload: UInt8, qos: QoS, ticket: PublishTicket?, isDone: Bool)]

    // In memory.
    private var waitingEntries: [Entry] = []
    private var waitingOutput: [ControlPacket] = []
    private var toldPayloads: [UInt16: [UInt8]] = [:]
    private var toServer: [ControlPacket] = []
    private var toClient: [ControlPacket] = []
    /// Steps that were taken.
    private(set) var stepCount = 0

    init(publishing: [(payload: UInt8, qos: QoS)], receiving: [(payload: UInt8, qos: QoS)], window: Int) {
        var options = ClientOptions()
        options.clientIdentifier = "c"
        options.cleanStart = false
        options.isJournaled = true
        options.acknowledgesAutomatically = false
        options.inFlightMessagesMax = window
        self.options = options
        server = ModelServer(sending: receiving)
        outbox = publishing.map { ($0.payload, $0.qos, nil, false) }
        session = ClientSession(options)
        start()
    }

    var isDone: Bool { outbox.allSatisfy(\.isDone) && server.hasSentAll }
    /// How many changes wait to be stored.
    var waitingEntryCount: Int { waitingEntries.count }

    /// Moves one packet, or stores what waits; returns whether there was anything to do.
    mutating func step(preferring choice: Int) -> Bool {
        var actions: [(inout ModelWorld) -> Void] = []
        if !waitingEntries.isEmpty || !waitingOutput.isEmpty { actions.append { $0.store() } }
        if !toServer.isEmpty { actions.append { $0.toClient += $0.server.received($0.toServer.removeFirst()) } }
        if !toClient.isEmpty { actions.append { $0.clientReceives() } }
        guard !actions.isEmpty else { return false }
        stepCount += 1
        actions[choice % actions.count](&self)
        return true
    }

    mutating func suffer(_ fault: Fault) {
        switch fault {
        case .cut: break
        case .forgetful: server.forgetSession()
        case .crash(let stored, let arrives):
            if arrives { for packet in toServer { _ = server.received(packet) } }
            for entry in waitingEntries.prefix(stored) { store(entry) }
            session = ClientSession(options, restoring: self.stored)
            (waitingEntries, waitingOutput, toldPayloads) = ([], [], [:])
            (toServer, toClient) = ([], [])
            return start()
        }
        // The process lives on: what it had told of itself is stored.
        session.transportClosed()
        for entry in waitingEntries { store(entry) }
        (waitingEntries, waitingOutput, toServer, toClient) = ([], [], [], [])
        session.transportOpened(now: 0)
        collect()
    }

    private mutating func start() {
        session.transportOpened(now: 0)
        for index in outbox.indices where outbox[index].ticket == nil {
            let publication = Publication("up", [outbox[index].payload], qos: outbox[index].qos)
            _ = try? session.publish(publication, now: 0)
        }
        collect()
    }

    private mutating func clientReceives() {
        session.received(toClient.removeFirst().encoded(version: .v5), now: 0)
        while let event = session.nextEvent() {
            guard case .message(let message) = event, let token = message.token else { continue }
            if message.qos == .exactlyOnce {
                toldPayloads[token.packetIdentifier] = message.payload.bytes
            } else {
                waitingEntries.append(.message(message.payload.bytes))
            }
            session.acknowledge(token, now: 0)
        }
        collect()
    }

    /// Takes what the session has to say.
    private mutating func collect() {
        while session.nextEvent() != nil {}
        for change in session.takeChanges() {
            if case .received(let identifier) = change {
                waitingEntries.append(.change(change, payload: toldPayloads[identifier]))
            } else {
                waitingEntries.append(.change(change, payload: nil))
            }
        }
        waitingOutput += Conversation.packets(session.takeOutput(), version: .v5)
    }

    private mutating func store() {
        for entry in waitingEntries { store(entry) }
        toServer += waitingOutput
        (waitingEntries, waitingOutput) = ([], [])
    }

    private mutating func store(_ entry: Entry) {
        switch entry {
        case .message(let payload): inbox.append(payload)
        case .change(let change, let payload):
            stored.apply(change)
            if let payload { inbox.append(payload) }
            switch change {
            case .sent(let ticket, _, let publication):
                for index in outbox.indices where [outbox[index].payload] == publication.payload.bytes {
                    outbox[index].ticket = ticket
                }
            case .done(let ticket, _):
                for index in outbox.indices where outbox[index].ticket == ticket { outbox[index].isDone = true }
            case .released, .received, .forgotten, .startedOver: break
            }
        }
    }
}
