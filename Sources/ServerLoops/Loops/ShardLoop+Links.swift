package import BrokerCore
package import BrokerModel
package import Bytes
import MQTTCodec
package import Platform
package import Transports

/// The connections of a loop: from accept or hand-over to close, and between their transports and the shard.
extension ShardLoop {
    package func start(_ listener: any Acceptor, _ policy: Int) {
        let path = listener.path
        do throws(SystemError) {
            try listener.serve(
                on: events, accept: { [unowned self] in accept($0, policy, path: path) },
                report: { [log] in Self.report($0, to: log) })
        } catch {
            log.write(.error, "Error: \(error).")
        }
    }

    /// - Parameter path: the file of a Unix socket, which stands for the address that its peers do not have.
    private func accept(_ socket: any ByteChannel, _ policy: Int, path: String?) {
        let peer = socket.peerAddress
        let layers = doors.layers[policy]
        let isForwarding = layers.forwardingProxy(peer) != nil
        let refusal = doors.admission.refusal(
            of: peer, listener: policy, proxyProtocol: layers.proxyProtocol, isForwarding: isForwarding,
            addresses: logins.tables.listeners[policy].addresses, settings: shard.settings, bans: shard.bans,
            now: events.nowMilliseconds)
        if let refusal {
            report(refusal, of: peer)
            socket.close()
            return
        }
        // Of a proxy's connection the client counts, who is not known yet.
        let isClients = layers.proxyProtocol == nil && !isForwarding
        let addressSlot: AddressSlot?
        do throws(AdmissionRefusal) {
            addressSlot = isClients ? try doors.admission.takeSlot(for: peer, settings: shard.settings) : nil
        } catch {
            report(error, of: peer)
            socket.close()
            doors.admission.leave(listener: policy)
            return
        }
        let info = ConnectionInfo(address: path ?? peer.host, port: peer.port, listener: policy)
        guard !layers.isEmpty else {
            attach(socket, shard.connected(info), listener: policy, addressSlot: addressSlot, isIdentified: true)
            return
        }
        guard let channel = layers.channel(on: socket, workspace: workspace) else {
            log.write(.error, "Error: Out of memory for TLS; the connection from \(peer) is closed.")
            socket.close()
            doors.admission.leave(listener: policy)
            return
        }
        attach(channel, shard.connected(info), listener: policy, addressSlot: addressSlot, isIdentified: false)
    }

    /// Lets a page of the dashboard in, which has shown to the control thread that it is an administrator's.
    package func open(_ channel: any ByteChannel, _ info: ConnectionInfo) {
        let refusal = doors.admission.refusal(
            of: channel.peerAddress, listener: info.listener, proxyProtocol: nil, settings: shard.settings,
            now: events.nowMilliseconds)
        if let refusal {
            report(refusal, of: channel.peerAddress)
            return channel.close()
        }
        attach(channel, shard.connected(info), listener: info.listener, addressSlot: nil, isIdentified: true)
    }

    package func adopt(
        _ received: HandOver, _ channel: any ByteChannel, addressSlot: AddressSlot?, decidedBy security: ListenerSecurity?
    ) {
        var handOver = received
        if let login = handOver.connectedLogin, let security,
            !logins.tables.listeners[login.info.listener].keeps(login, of: security)
        {
            // The files have changed while it was on its way: those that are in force decide.
            handOver.login = nil
        }
        let filtered = channel as? FilteredChannel
        filtered?.workspace = workspace
        let id = shard.adopt(handOver)
        attach(channel, id, listener: handOver.info.listener, addressSlot: addressSlot, isIdentified: true)
        if let filtered, let link = links[Int(id.slot)] { settle(link, filtered) }
    }

    private func attach(
        _ channel: any ByteChannel, _ id: ConnectionID, listener: Int, addressSlot: AddressSlot?, isIdentified: Bool
    ) {
        let link = Link(
            channel: channel, id: id, listener: listener, addressSlot: addressSlot, isIdentified: isIdentified, loop: self)
        while links.count <= Int(id.slot) { links.append(nil) }
        links[Int(id.slot)] = link
        do throws(SystemError) {
            try link.register(on: events)
        } catch {
            log.write(.error, "Error: \(error).")
            link.hasEnded = true
            shard.closed(id)
        }
    }

    /// A connection's transport has something for us.
    package func ready(_ link: Link, _ ready: ReadyEvents) {
        if link.isDraining {
            drain(link)
            return
        }
        if ready.contains(.writable) {
            if let filtered = link.filtered {
                filtered.flush()
                settle(link, filtered)
            }
            shard.writable(link.id, sink: self)
        }
        guard !ready.isDisjoint(with: [.readable, .hangUp, .error]) else { return }
        if let filtered = link.filtered, !filtered.isOpen, ready.isDisjoint(with: [.hangUp, .error]),
            doors.layers[link.listener].tls != nil
        {
            shakeHands(link)
        } else if pressure.isAhead, link.share.isBulk, ready.isDisjoint(with: [.hangUp, .error]) {
            park(link)
        } else {
            read(link)
        }
    }

    /// Goes on with a TLS handshake, now or in its turn: storms of them must not hold up those who are connected.
    private func shakeHands(_ link: Link) {
        guard !link.isParked else { return }
        guard queues.handshakes.mayStep(link, now: events.nowMilliseconds) else {
            link.setParked(true, on: events)
            return
        }
        read(link)
    }

    /// Goes on with the handshakes whose turn it is.
    func shakeHands() {
        while let link = queues.handshakes.takeNext(now: events.nowMilliseconds, isThere: isOpen) {
            link.setParked(false, on: events)
            read(link)
        }
    }

    /// How many handshakes this loop may have at a time: its part of those of the broker.
    var handshakesMax: Int {
        guard let most = shard.settings.handshakesMax else { return .max }
        return max(1, most / max(1, loops.count))
    }

    private func park(_ link: Link) {
        guard !link.isParked else { return }
        if queues.parked.isEmpty { queues.parkedUntil = events.nowMilliseconds + Limits.parkedMillisecondsMax }
        link.setParked(true, on: events)
        queues.parked.append(link)
    }

    /// Reads from the links that were parked, now: should the loop be ahead again at once, they have had their turn.
    func readParked() {
        let waiting = queues.parked
        queues.parked = []
        for link in waiting {
            link.setParked(false, on: events)
            readIfOpen(link)
        }
    }

    private func readIfOpen(_ link: Link) { if isOpen(link) { read(link) } }

    private func isOpen(_ link: Link) -> Bool {
        links[Int(link.id.slot)] === link && !link.isDraining && !link.hasEnded
    }

    /// Reads what a link has to say, as far as its share of the turn goes; it is worked off when all others have been
    /// read from.
    private func read(_ link: Link) {
        var share = link.share.bytes(of: events.scratch.count, turn: turn.number)
        guard share > 0, !pressure.isHeldUp else {
            if link.filtered?.hasMore == true { queues.again.append(link) }
            return
        }
        if pressure.hasOpenPackets, shard.hasOpenPacket(link.id) {
            // Its socket stays ready, and the next turn comes at once.
            if link.filtered?.hasMore == true { queues.again.append(link) }
            return
        }
        if link.filtered != nil { share = max(share, Self.filteredBytesMin) }
        let roomMin = link.filtered == nil ? Self.roomBytesMin : Self.filteredRoomBytesMin
        if arrivals.room.count < min(share, roomMin) { workOff() }
        let room = arrivals.room
        switch link.channel.read(into: UnsafeMutableRawBufferPointer(rebasing: room[..<min(share, room.count)])) {
        case .bytes(let count):
            if link.isIdentified || identify(link) { arrivals.add(count, from: link) }
        case .wouldBlock: break
        case .refused(let refusal):
            // What it said before comes first.
            workOff()
            report(refusal, of: link)
            shard.closed(link.id)
        case .endOfStream, .failed:
            workOff()
            link.hasEnded = true
            if queues.ending.isEmpty, queues.endsLeft > 0 {
                queues.endsLeft -= 1
                shard.closed(link.id)
            } else {
                // It would be ready again and again.
                link.deregister(from: events)
                queues.ending.append(link)
            }
        }
        if let filtered = link.filtered, !link.hasEnded {
            if filtered.isOpen, link.handshake == .active { queues.handshakes.ended(link) }
            settle(link, filtered)
        }
    }

    /// Tells the core of peers that have gone, some in each turn: when thousands go at once, others must not wait for
    /// all of their wills.
    func reportEnds() {
        queues.endsLeft = Limits.endsPerTurn
        guard !queues.ending.isEmpty else { return }
        let told = queues.ending.prefix(queues.endsLeft)
        queues.endsLeft -= told.count
        for link in told { shard.closed(link.id) }
        queues.ending.removeFirst(told.count)
    }

    /// Gives the core what has been read.
    func workOff() {
        arrivals.takeAll { bytes, link in received(bytes, from: link) }
    }

    private func received(_ bytes: UnsafeRawBufferPointer, from link: Link) {
        guard ReadShare.isNotable(bytes.count) else {
            link.share.markLittle()
            shard.received(bytes, from: link.id)
            return
        }
        let (before, sentBefore) = (shard.workDone, shard.outgoingBytes)
        shard.received(bytes, from: link.id)
        let after = shard.workDone
        link.share.record(
            byteCount: bytes.count, received: after.packetsReceived - before.packetsReceived,
            sent: after.messagesSent - before.messagesSent, shardMessageBytes: shard.outgoingBytes - sentBefore, turn: turn.number)
    }

    package func send(_ slices: UnsafeBufferPointer<ByteSlice>, to id: ConnectionID) -> Int {
        guard let link = links[Int(id.slot)].map({ Unmanaged.passUnretained($0) }) else { return 0 }
        return link._withUnsafeGuaranteedRef { $0.id == id ? send(slices, by: $0) : 0 }
    }

    @inline(__always)
    private func send(_ slices: UnsafeBufferPointer<ByteSlice>, by link: Link) -> Int {
        let id = link.id
        let result = link.channel.write(slices)
        guard case .wrote(let count) = result else {
            // A broken transport is reported by the loop; a full one too, once it has room.
            link.setInterest(shard.isFlooded(id) ? .writable : [.readable, .writable], on: events)
            if let filtered = link.filtered, filtered.hasMore { queues.again.append(link) }
            return 0
        }
        var offered = 0
        for slice in slices { offered &+= slice.count }
        if count < offered || link.filtered?.holdsBytes == true {
            link.setInterest(shard.isFlooded(id) ? .writable : [.readable, .writable], on: events)
        } else {
            link.setInterest(.readable, on: events)
        }
        return count
    }

    /// The core has ended a connection.
    package func close(_ id: ConnectionID, now: UInt64) {
        logins.forget(id)
        guard let link = take(id) else { return }
        if link.hasEnded {
            finish(link)
            return
        }
        link.isDraining = true
        link.channel.shutdownSending()
        queues.draining.append((link, now + Limits.drainMilliseconds))
        drain(link)
    }

    private func drain(_ link: Link) {
        link.filtered?.flush()
        link.setInterest(link.filtered?.holdsBytes == true ? [.readable, .writable] : .readable, on: events)
        if arrivals.room.count < Self.roomBytesMin { workOff() }
        switch link.channel.read(into: arrivals.room) {
        case .bytes, .wouldBlock: return
        case .endOfStream, .failed, .refused: link.hasEnded = true
        }
    }

    /// Lets go of the links whose peer has ended too, and of those whose time is up.
    func closeDrained(now: UInt64) {
        guard !queues.draining.isEmpty else { return }
        queues.draining.removeAll { link, deadline in
            guard link.hasEnded || deadline <= now else { return false }
            finish(link)
            return true
        }
    }

    private func finish(_ link: Link) {
        link.deregister(from: events)
        link.channel.close()
        // Queues may hold the link for longer.
        link.addressSlot = nil
        doors.admission.leave(listener: link.listener)
    }

    package func send(_ id: ConnectionID, _ handOver: HandOver) {
        guard let link = take(id) else { return }
        link.deregister(from: events)
        let security = handOver.login.map { _ in logins.tables.listeners[handOver.info.listener] }
        loops[handOver.shard].mailbox.post(.handOver(handOver, link.channel, link.addressSlot, security))
        link.addressSlot = nil
    }

    private func take(_ id: ConnectionID) -> Link? {
        guard let link = links[Int(id.slot)], link.id == id else { return nil }
        links[Int(id.slot)] = nil
        queues.handshakes.ended(link)
        if link.isParked {
            link.setParked(false, on: events)
            queues.parked.removeAll { $0 === link }
        }
        return link
    }

    // MARK: Channels with layers

    /// Tells the core what the layers know of the peer, before its first bytes; false if they make the door close.
    private func identify(_ link: Link) -> Bool {
        link.isIdentified = true
        guard let filtered = link.filtered, var info = shard.info(of: link.id) else { return true }
        let identity = filtered.identity
        if let forwarded = identity.forwardedAddress {
            do throws(AdmissionRefusal) {
                let refusal = doors.admission.refusal(
                    ofForwarded: forwarded, addresses: logins.tables.listeners[link.listener].addresses, settings: shard.settings,
                    bans: shard.bans, now: events.nowMilliseconds)
                if let refusal { throw refusal }
                link.addressSlot = try doors.admission.takeSlot(for: forwarded, settings: shard.settings)
            } catch {
                report(error, of: forwarded)
                link.hasEnded = true
                shard.closed(link.id)
                return false
            }
            // A client that has come to the proxy by a Unix socket has that one's path for an address.
            info.address = forwarded.family == .local ? identity.forwardedPath ?? "unix" : forwarded.host
            info.port = forwarded.port
        }
        info.certificateCommonName = identity.certificateCommonName
        info.certificateSubject = identity.certificateSubject
        info.certificateClaims = doors.layers[link.listener].certificateNaming.claims(of: identity.certificate)
        info.preSharedKeyIdentity = identity.preSharedKeyIdentity
        info.encryption = identity.encryption
        if doors.layers[link.listener].tls != nil { measurements.handshakeEnded(microseconds: turn.beganAt &- link.attachedAt) }
        shard.identified(link.id, as: info)
        if let encryption = identity.encryption {
            log.write(.information, "Connection from \(info.address):\(info.port) negotiated \(LoggedText(encryption.utf8))")
        }
        if doors.layers[info.listener].webSocket != nil {
            log.write(.webSockets, "Connection from \(info.address):\(info.port) upgraded to WebSocket")
        }
        return true
    }

    /// After a channel with layers has worked: asks to hear when it can get rid of what it holds, and comes back if it
    /// has more to say.
    private func settle(_ link: Link, _ filtered: FilteredChannel) {
        if filtered.holdsBytes {
            link.setInterest(shard.isFlooded(link.id) ? .writable : [.readable, .writable], on: events)
        } else if !shard.isBlocked(link.id) {
            link.setInterest(.readable, on: events)
        }
        if filtered.hasMore { queues.again.append(link) }
    }

    func readAgain() {
        let waiting = queues.again
        queues.again = []
        for link in waiting { readIfOpen(link) }
    }

    private func report(_ refusal: AdmissionRefusal, of peer: PeerAddress) {
        shard.connectionRefused(refusal.tally)
        if let line = doors.line(on: refusal, of: peer, now: events.nowMilliseconds) { log.write(.notice, line) }
    }

    private func report(_ refusal: FilterRefusal, of link: Link) {
        guard let info = shard.info(of: link.id) else { return }
        shard.layerRefused(refusal.layer.tally, isOfLogin: refusal.isOfLogin)
        switch refusal.layer {
        case .proxyProtocol: log.write(.notice, refusal.reason)
        case .tls, .webSocket, .proxy:
            let fields = LogFields(address: info.address, reason: refusal.reason)
            log.write(
                .notice,
                "Client \(shard.name(of: link.id) ?? info.address) [\(info.address):\(info.port)] disconnected: \(refusal).", fields
            )
            guard refusal.isOfLogin else { return }
            // The core has not heard of this client: its line is the core's for failed logins.
            let port = info.port == 0 ? "" : " port \(info.port)"
            log.write(.notice, "Login failed from \(info.address)\(port): \(refusal.reason), client '<unknown>'.", fields)
            if shard.settings.countsFailedLogins { control?.post(.offence(.failedLogin(address: info.address))) }
        }
    }

    package static func report(_ report: ListenerReport, to log: Log) {
        switch report {
        case .paused(let error):
            log.write(.warning, "Warning: Unable to accept new connections: \(error). Trying again every 100 ms.")
        case .resumed(let count):
            log.write(.notice, "Accepting connections again; \(count) were refused.")
        }
    }

    /// What a channel with layers needs to read into.
    private static let filteredBytesMin = 64 << 10
    /// Less room than this is not read into, unless a link's share is less: large reads gain.
    private static let roomBytesMin = 64 << 10
    /// A channel with layers leaves some of it free.
    private static let filteredRoomBytesMin = 168 << 10
}

extension CertificateNaming {
    /// Who a client is by its certificate; nil for a client without one.
    package func claims(of names: CertificateNames?) -> CertificateClaims {
        var claims = CertificateClaims()
        guard let names else { return claims }
        do throws(CertificateNameSelector.Refusal) {
            claims.userName = try userName?.name(in: names)
            claims.clientIdentifier = try clientIdentifier?.name(in: names)
        } catch {
            claims.objection = error.words
        }
        func found(_ memberships: [CertificateMembership]) -> [EncodedString] {
            memberships.flatMap { $0.names(in: names) }.compactMap { EncodedString($0) }
        }
        claims.memberships = AccessMemberships(groups: found(groups), roles: found(roles))
        claims.attributes = attributes.compactMap { attribute in
            names.values(of: attribute.part).first.map { ClientAttribute(name: attribute.name, value: $0) }
        }
        return claims
    }
}

extension Limits {
    /// Peers that have gone of which the core hears in a turn; it hears of the others in the next. Each is some 15 µs
    /// of work, with its will.
    static let endsPerTurn = 64

    /// How long a peer may take to end its side after we have ended ours.
    static let drainMilliseconds: UInt64 = 1000
}
