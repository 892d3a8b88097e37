//! Tests of devices that fail, hang and panic on command, which no machine of ours does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};

use clew_cluster::Role;
use clew_node::{Node, NodeConfig, NodeServer};
use clew_proto::encoder::v1::encoder_service_server::EncoderServiceServer;
use clew_runtime::breaker::DEVICE_FAILED;
use clew_telemetry::ProcessPhase;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::server::NamedService;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::*;
use crate::service::EncoderEndpoint;

/// Maximum time that a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(60);
/// So long that it does not pass during a test.
const NEVER: Duration = Duration::from_secs(3600);

/// Limits of a device that is checked often, and never counts as lost or hung.
const PATIENT: BreakerLimits = BreakerLimits {
    first_pause: Duration::from_millis(2),
    longest_pause: Duration::from_millis(2),
    lost: NEVER,
    late: NEVER,
    hung: NEVER,
};

/// Text that tells the device what to do.
#[derive(Clone, Copy)]
enum Order {
    Double(u32),
    /// Is refused, as tokens of another model are.
    Refuse,
    Fail,
    Panic,
    /// Computes nothing until the device is released.
    Hang,
}

/// Device that does what it is told, and passes checks while it is told so.
struct Obedient {
    /// Number of orders in each batch that was begun.
    begun: Mutex<Vec<usize>>,
    passes: AtomicBool,
    is_released: Mutex<bool>,
    released: Condvar,
}

impl Obedient {
    fn new() -> Arc<Self> {
        let (is_released, released) = (Mutex::new(false), Condvar::new());
        let (begun, passes) = (Mutex::default(), AtomicBool::new(true));
        Arc::new(Self { begun, passes, is_released, released })
    }

    fn begun(&self) -> Vec<usize> {
        self.begun.lock().unwrap().clone()
    }

    fn breaks(&self) {
        self.passes.store(false, Ordering::SeqCst);
    }

    fn is_mended(&self) {
        self.passes.store(true, Ordering::SeqCst);
    }

    fn release(&self) {
        *self.is_released.lock().unwrap() = true;
        self.released.notify_all();
    }

    fn out_of_memory() -> clew_model::Error {
        clew_model::Error::Device { reason: "out of memory".to_owned() }
    }
}

impl Computes for Obedient {
    type Text = Order;
    type Result = u32;

    const NAMES: Names = Names {
        part: "encoder",
        queue: "the queue",
        doing: "doubling",
        stage: "compute",
        span: |_| Span::none(),
        severity: Severity::NotReady,
    };

    fn name(&self) -> &str {
        "obedient"
    }

    fn tokens(_: &Order) -> usize {
        1
    }

    fn compute(&self, orders: &[Order], _: &mut Scratch) -> Result<Vec<u32>, clew_model::Error> {
        self.begun.lock().unwrap().push(orders.len());
        if orders.iter().any(|order| matches!(order, Order::Refuse)) {
            let (expected, found) = ("tokens of this model".to_owned(), "others".to_owned());
            return Err(clew_model::Error::ForeignTokens { expected, found });
        }
        let mut results = Vec::new();
        for order in orders {
            match order {
                Order::Double(number) => results.push(2 * number),
                Order::Refuse => unreachable!("refused above"),
                Order::Fail => return Err(Self::out_of_memory()),
                Order::Panic => panic!("told to panic"),
                Order::Hang => {
                    let held = self.is_released.lock().unwrap();
                    drop(self.released.wait_while(held, |released| !*released).unwrap());
                    results.push(0);
                }
            }
        }
        Ok(results)
    }

    fn check(&self) -> Result<(), clew_model::Error> {
        match self.passes.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(Self::out_of_memory()),
        }
    }
}

async fn devices(
    limits: BreakerLimits,
    model: &Arc<Obedient>,
    threads: usize,
) -> Arc<Devices<Obedient>> {
    let question_wait_ms = 60_000;
    let config = EncoderConfig { threads, question_wait_ms, ..EncoderConfig::default() };
    Arc::new(Devices::start_within(limits, Arc::clone(model), &config).await.unwrap())
}

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

async fn compute(devices: &Devices<Obedient>, order: Order) -> Result<Vec<u32>, Error> {
    compute_at(devices, order, Priority::Interactive).await
}

async fn compute_at(
    devices: &Devices<Obedient>,
    order: Order,
    priority: Priority,
) -> Result<Vec<u32>, Error> {
    devices.compute(vec![order], priority, Instant::now(), soon()).await
}

/// Has one thread compute the orders of several callers that wait together. Returns the results,
/// and the sizes of the batches.
async fn together(
    orders: impl IntoIterator<Item = (Order, Priority)>,
) -> (Vec<Result<Vec<u32>, Error>>, Vec<usize>) {
    let model = Obedient::new();
    let devices = devices(PATIENT, &model, 1).await;
    let begin = |order, priority| {
        let devices = Arc::clone(&devices);
        tokio::spawn(async move { compute_at(&devices, order, priority).await })
    };
    let hanging = begin(Order::Hang, Priority::Interactive);
    until(async || model.begun() == [1]).await;
    let mut waiting = Vec::new();
    for (order, priority) in orders {
        waiting.push(begin(order, priority));
        until(async || devices.gate.in_use() == 1 + waiting.len()).await;
    }
    model.release();
    assert_eq!(hanging.await.unwrap().unwrap(), [0]);
    let mut results = Vec::new();
    for result in waiting {
        results.push(result.await.unwrap());
    }
    assert_eq!(compute(&devices, Order::Double(1)).await.unwrap(), [2]);
    assert!(devices.troubles().is_empty());
    until(async || devices.gate.in_use() == 0).await;
    devices.stop().await;
    let begun = model.begun();
    (results, begun[1..begun.len() - 1].to_vec())
}

fn severity(devices: &Devices<Obedient>) -> Option<Severity> {
    devices.troubles().first().map(|trouble| trouble.severity)
}

/// Waits until `has_come` returns true.
async fn until(has_come: impl AsyncFn() -> bool) {
    let deadline = soon();
    while !has_come().await {
        assert!(Instant::now() < deadline, "it never came");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Checks that an error tells to come again.
fn assert_refused(error: &Error) {
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Unavailable, DEVICE_FAILED));
    assert!(error.is_retryable() && error.retry_after().is_some());
    assert!(error.message().contains("out of memory"), "{error}");
}

#[tokio::test]
async fn a_batch_that_is_too_large_costs_its_caller_a_retry_and_the_others_nothing() {
    let model = Obedient::new();
    let devices = devices(PATIENT, &model, 1).await;
    for number in 0..20 {
        assert_refused(&compute(&devices, Order::Fail).await.unwrap_err());
        assert_eq!(compute(&devices, Order::Double(number)).await.unwrap(), [2 * number]);
        assert!(devices.troubles().is_empty());
    }
    devices.stop().await;
}

#[tokio::test]
async fn a_batch_that_panics_takes_no_other_with_it() {
    let model = Obedient::new();
    let devices = devices(PATIENT, &model, 2).await;
    let other = tokio::spawn({
        let devices = Arc::clone(&devices);
        async move { compute(&devices, Order::Hang).await }
    });
    let panicked = compute(&devices, Order::Panic).await.unwrap_err();
    assert_eq!((panicked.reason(), panicked.is_retryable()), (DEVICE_FAILED, true));
    assert_eq!(compute(&devices, Order::Double(4)).await.unwrap(), [8]);
    model.release();
    assert_eq!(other.await.unwrap().unwrap(), [0]);
    assert_eq!(devices.workers.restarts(), 0, "the threads go on");
    devices.stop().await;
}

#[tokio::test]
async fn callers_that_wait_together_share_a_batch_and_get_their_own_results() {
    let orders = (0..16).map(|number| {
        let is_question = number % 3 == 0;
        let priority = if is_question { Priority::Interactive } else { Priority::Bulk };
        (Order::Double(number), priority)
    });
    let (results, batches) = together(orders).await;
    for (number, result) in (0..).zip(results) {
        assert_eq!(result.unwrap(), [2 * number]);
    }
    assert_eq!(batches, [6, 10], "the questions, and then the bulk");
}

#[tokio::test]
async fn texts_that_the_model_refuses_fail_their_own_caller_only() {
    let orders = [Order::Double(1), Order::Refuse, Order::Double(2)];
    let (results, batches) = together(orders.map(|order| (order, Priority::Bulk))).await;
    let [one, refused, two] = results.try_into().unwrap();
    assert_eq!((one.unwrap(), two.unwrap()), (vec![2], vec![4]));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(batches, [3, 1, 1, 1]);
}

#[tokio::test]
async fn a_device_that_fails_at_a_batch_tells_each_of_its_callers() {
    for order in [Order::Fail, Order::Panic] {
        let orders = [Order::Double(1), order, Order::Double(2)];
        let (results, batches) = together(orders.map(|order| (order, Priority::Bulk))).await;
        for result in results {
            let error = result.unwrap_err();
            assert_eq!((error.reason(), error.is_retryable()), (DEVICE_FAILED, true));
            assert!(error.retry_after().is_some());
        }
        assert_eq!(batches, [3]);
    }
}

/// Serves an encoder service that takes work while `devices` do. Returns its node and its address.
async fn serve(devices: &Arc<Devices<Obedient>>) -> (Arc<Node>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let node = Node::join(NodeConfig::default(), [Role::Encoder], address).await.unwrap();
    let node = Arc::new(node);
    let mut server = NodeServer::new(&node).unwrap();
    let service = EncoderEndpoint::new(Vec::new(), 1).service();
    let (watched, served) = (Arc::clone(devices), Arc::clone(devices));
    node.health().watch(move || watched.troubles());
    server.add_while(service, move || served.troubles().is_empty());
    node.health().enter(ProcessPhase::Serving);
    let draining = node.draining();
    // Never stopped: the sender lives as long as the task.
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        let _stop = stop;
        server.serve(listener, draining, stopped).await
    });
    (node, format!("http://{address}"))
}

#[tokio::test]
async fn devices_that_fail_are_out_of_service_until_they_pass_a_check() {
    let (model, well) = (Obedient::new(), Obedient::new());
    let failing = devices(PATIENT, &model, 2).await;
    let working = devices(PATIENT, &well, 1).await;
    let (node, address) = serve(&failing).await;
    let channel = tonic::transport::Endpoint::from_shared(address).unwrap().connect_lazy();
    let client = HealthClient::new(channel);
    let name = EncoderServiceServer::<EncoderEndpoint>::NAME.to_owned();
    let says = async |status: ServingStatus| {
        let request = HealthCheckRequest { service: name.clone() };
        client.clone().check(request).await.unwrap().into_inner().status() == status
    };
    until(async || says(ServingStatus::Serving).await).await;

    model.breaks();
    // They wait behind a batch that fails, and are not left waiting.
    let together = (0..40).map(|_| compute(&failing, Order::Fail));
    for refused in futures::future::join_all(together).await {
        assert_refused(&refused.unwrap_err());
    }
    until(async || severity(&failing) == Some(Severity::NotReady)).await;
    assert!(failing.troubles()[0].problem.starts_with("`obedient`: "));
    assert_refused(&compute(&failing, Order::Double(1)).await.unwrap_err());
    assert!(format!("{:?}", node.health()).contains("ready: false"));
    until(async || says(ServingStatus::NotServing).await).await;
    assert_eq!(compute(&working, Order::Double(3)).await.unwrap(), [6], "others serve meanwhile");
    assert!(working.troubles().is_empty());

    model.is_mended();
    until(async || severity(&failing).is_none()).await;
    assert_eq!(compute(&failing, Order::Double(5)).await.unwrap(), [10]);
    assert!(format!("{:?}", node.health()).contains("ready: true"));
    until(async || says(ServingStatus::Serving).await).await;
    assert_eq!(failing.gate.in_use(), 0, "every permit came back");
    failing.stop().await;
    working.stop().await;
}

#[tokio::test]
async fn devices_that_never_pass_a_check_are_dead_at_last() {
    let model = Obedient::new();
    let limits = BreakerLimits { lost: Duration::from_millis(30), ..PATIENT };
    let devices = devices(limits, &model, 1).await;
    model.breaks();
    assert_refused(&compute(&devices, Order::Fail).await.unwrap_err());
    until(async || severity(&devices) == Some(Severity::Dead)).await;
    assert_refused(&compute(&devices, Order::Double(1)).await.unwrap_err());
    devices.stop().await;
}

#[tokio::test]
async fn a_device_that_hangs_gets_no_more_work_and_what_waits_is_refused() {
    let model = Obedient::new();
    let limits = BreakerLimits { late: Duration::from_millis(30), ..PATIENT };
    let devices = devices(limits, &model, 1).await;
    let begin = |order| {
        let devices = Arc::clone(&devices);
        tokio::spawn(async move { compute(&devices, order).await })
    };
    let hanging = begin(Order::Hang);
    until(async || severity(&devices) == Some(Severity::NotReady)).await;
    let refused = compute(&devices, Order::Double(1)).await.unwrap_err();
    assert_eq!((refused.reason(), refused.is_retryable()), (DEVICE_FAILED, true));
    assert!(refused.message().contains("computes one batch"), "{refused}");
    model.release();
    assert_eq!(hanging.await.unwrap().unwrap(), [0]);
    assert_eq!(compute(&devices, Order::Double(7)).await.unwrap(), [14]);
    assert!(devices.troubles().is_empty());
    devices.stop().await;
}

#[tokio::test]
async fn what_waits_behind_a_hanging_batch_is_refused_with_the_next_caller() {
    let model = Obedient::new();
    let limits = BreakerLimits { late: Duration::from_millis(100), ..PATIENT };
    let devices = devices(limits, &model, 1).await;
    let begin = |order| {
        let devices = Arc::clone(&devices);
        tokio::spawn(async move { compute(&devices, order).await })
    };
    let hanging = begin(Order::Hang);
    until(async || model.begun() == [1]).await;
    // If it comes too late to wait, it is refused as well.
    let waiting = begin(Order::Double(1));
    until(async || devices.gate.in_use() == 2 || waiting.is_finished()).await;
    until(async || severity(&devices).is_some()).await;
    let refused = compute(&devices, Order::Double(2)).await.unwrap_err();
    assert_eq!(refused.reason(), DEVICE_FAILED);
    assert_eq!(waiting.await.unwrap().unwrap_err().reason(), DEVICE_FAILED);
    assert!(!hanging.is_finished());
    model.release();
    assert_eq!(hanging.await.unwrap().unwrap(), [0]);
    devices.stop().await;
}

#[tokio::test]
async fn a_device_that_never_goes_on_is_dead_at_last() {
    let model = Obedient::new();
    let limits = BreakerLimits {
        late: Duration::from_millis(10),
        hung: Duration::from_millis(30),
        ..PATIENT
    };
    let devices = devices(limits, &model, 1).await;
    let hanging = tokio::spawn({
        let devices = Arc::clone(&devices);
        async move { compute(&devices, Order::Hang).await }
    });
    until(async || severity(&devices) == Some(Severity::Dead)).await;
    model.release();
    hanging.await.unwrap().unwrap();
    devices.stop().await;
}

#[test]
fn groups_keep_the_budget_and_hold_every_text_once() {
    let lengths = [5, 300, 7, 1, 90, 90, 64];
    let groups = by_length(&lengths, 128);
    let mut all: Vec<usize> = groups.iter().flatten().copied().collect();
    all.sort_unstable();
    assert_eq!(all, (0..lengths.len()).collect::<Vec<_>>());
    for group in &groups {
        let tokens: usize = group.iter().map(|&i| lengths[i]).sum();
        assert!(tokens <= 128 || group.len() == 1, "{group:?}");
    }
}
