internal import Platform

/// Who is registered on a loop, by place and generation.
///
/// Places are reused, newest first; a place's generation is odd while it has a tenant and even while it is free, so
/// `count of tenants == count of odd generations`. Growth is the array's: amortised constant.
struct HandlerTable {
    /// What is known of a registered descriptor.
    struct Tenant {
        let handler: any EventHandler
        let descriptor: FileDescriptor
        var interest: Interest
    }

    private struct Place {
        var generation: UInt32
        var tenant: Tenant?
    }

    private var places: ContiguousArray<Place> = []
    private var free: ContiguousArray<UInt32> = []

    /// How many descriptors are registered.
    var count: Int { places.count - free.count }

    /// The tenant that the registration means, nil when it has left.
    subscript(registration: Registration) -> Tenant? {
        let index = Int(registration.index)
        guard index < places.count, places[index].generation == registration.generation else { return nil }
        return places[index].tenant
    }

    /// Gives the tenant a place.
    mutating func insert(_ tenant: Tenant) -> Registration {
        if let index = free.popLast() {
            let place = Int(index)
            places[place].generation &+= 1
            places[place].tenant = tenant
            return Registration(index: index, generation: places[place].generation)
        }
        let index = UInt32(places.count)
        places.append(Place(generation: 1, tenant: tenant))
        return Registration(index: index, generation: 1)
    }

    /// Notes the interest of a tenant that is there.
    mutating func setInterest(_ interest: Interest, of registration: Registration) {
        places[Int(registration.index)].tenant?.interest = interest
    }

    /// Takes the tenant's place away and returns the tenant, nil when it had left before.
    mutating func remove(_ registration: Registration) -> Tenant? {
        guard let tenant = self[registration] else { return nil }
        let place = Int(registration.index)
        places[place].tenant = nil
        places[place].generation &+= 1
        free.append(registration.index)
        return tenant
    }
}
