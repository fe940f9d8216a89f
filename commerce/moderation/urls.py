"""Routes of reports, decisions, notices and appeals, under /api."""

from commerce.moderation.views import (
    AppealViewSet,
    DecisionViewSet,
    NoticeViewSet,
    OwnReportViewSet,
    ReportViewSet,
)
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("abusive_reports", ReportViewSet)
router.register("decisions", DecisionViewSet)
router.register("my-reports", OwnReportViewSet, "own-report")
router.register("notices", NoticeViewSet)
router.register("appeals", AppealViewSet)

urlpatterns = router.urls
